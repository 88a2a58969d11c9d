// Package lifecycle decides when PID 1 ends other than by being told to.
package lifecycle

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The exit codes of sandboxd; Quit chooses any other.
const (
	// ExitRunnerLost: the runner's last connection is gone for too long.
	ExitRunnerLost = 201
	// ExitNoRunner: no runner ever came.
	ExitNoRunner = 202
	// ExitTerminated: SIGTERM came and the grace period is almost over.
	ExitTerminated = 143
)

// Runner says who is served, and for how long to wait for it.
type Runner struct {
	UID uint32
	// LostAfter is how long it may be gone.
	LostAfter time.Duration
	// NeverAfter is how long it may take to come; 0: for ever.
	NeverAfter time.Duration
	// Lost is called when either has passed.
	Lost func(code int, reason string)
	// SameNamespace serves processes of our own pid namespace too: for tests.
	SameNamespace bool
}

// RunnerListener accepts the runner's connections only, and notices when the
// last of them is gone.
type RunnerListener struct {
	net.Listener
	runner Runner

	mu    sync.Mutex
	open  int
	timer *time.Timer
}

// ListenForRunner listens on a Unix socket. Everybody in the container can
// reach it, and it gives root: so only the runner is served, by what the kernel
// says of the peer.
func ListenForRunner(path string, runner Runner) (*RunnerListener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		listener.Close()
		return nil, err
	}
	l := &RunnerListener{Listener: listener, runner: runner}
	if runner.NeverAfter > 0 {
		l.timer = l.unlessConnected(runner.NeverAfter, ExitNoRunner, fmt.Sprintf("no runner came within %v", runner.NeverAfter))
	}
	return l, nil
}

// Accept waits for the runner's next connection.
func (l *RunnerListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := l.check(connection); err != nil {
			fmt.Fprintf(os.Stderr, "sandboxd: refused a connection: %v\n", err)
			connection.Close()
			continue
		}
		l.opened()
		return &runnerConnection{Conn: connection, closed: sync.OnceFunc(l.closed)}, nil
	}
}

func (l *RunnerListener) check(connection net.Conn) error {
	peer, err := peerOf(connection)
	if err != nil {
		return err
	}
	if peer.Uid != l.runner.UID {
		return fmt.Errorf("it is from uid %d, and only uid %d is served", peer.Uid, l.runner.UID)
	}
	// The runner lives in another pid namespace and has no pid in ours. An agent
	// may well have the runner's uid.
	if peer.Pid != 0 && !l.runner.SameNamespace {
		return fmt.Errorf("it is from pid %d in this container, and the runner is in another", peer.Pid)
	}
	return nil
}

func (l *RunnerListener) opened() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	if l.timer != nil {
		l.timer.Stop()
	}
}

func (l *RunnerListener) closed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.open == 0 {
		l.timer = l.unlessConnected(l.runner.LostAfter, ExitRunnerLost,
			fmt.Sprintf("the runner has been gone for %v", l.runner.LostAfter))
	}
}

func (l *RunnerListener) unlessConnected(wait time.Duration, code int, reason string) *time.Timer {
	return time.AfterFunc(wait, func() {
		// The timer may have fired just before it was stopped.
		l.mu.Lock()
		connected := l.open > 0
		l.mu.Unlock()
		if !connected {
			l.runner.Lost(code, reason)
		}
	})
}

// runnerConnection tells when it is closed.
type runnerConnection struct {
	net.Conn
	closed func()
}

func (c *runnerConnection) Close() error {
	err := c.Conn.Close()
	c.closed()
	return err
}

func peerOf(connection net.Conn) (*unix.Ucred, error) {
	raw, err := connection.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var peerErr error
	err = raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return peer, errors.Join(err, peerErr)
}
