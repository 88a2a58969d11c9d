// Package lifecycle decides when PID 1 ends other than by being told to.
package lifecycle

import (
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

// RunnerListener accepts the runner's connections only, and notices when the
// last of them is gone.
type RunnerListener struct {
	net.Listener
	runnerUID uint32
	lost      func(code int, reason string)
	lostAfter time.Duration

	mu    sync.Mutex
	open  int
	timer *time.Timer
}

// ListenForRunner listens on a Unix socket. Everybody in the container can
// reach it, and it gives root: so only the user runnerUID is served, by what
// the kernel says of the peer. lost is called when there has been no connection
// for lostAfter, or none at all for neverAfter (0: wait for ever).
func ListenForRunner(path string, runnerUID uint32, lostAfter, neverAfter time.Duration,
	lost func(code int, reason string)) (*RunnerListener, error) {
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
	l := &RunnerListener{Listener: listener, runnerUID: runnerUID, lost: lost, lostAfter: lostAfter}
	if neverAfter > 0 {
		l.timer = l.unlessConnected(neverAfter, ExitNoRunner, fmt.Sprintf("no runner came within %v", neverAfter))
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
		uid, err := peerUID(connection)
		if err == nil && uid == l.runnerUID {
			l.opened()
			return &runnerConnection{Conn: connection, closed: sync.OnceFunc(l.closed)}, nil
		}
		fmt.Fprintf(os.Stderr, "sandboxd: refused a connection from uid %d: only uid %d is served\n", uid, l.runnerUID)
		connection.Close()
	}
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
		l.timer = l.unlessConnected(l.lostAfter, ExitRunnerLost, fmt.Sprintf("the runner has been gone for %v", l.lostAfter))
	}
}

func (l *RunnerListener) unlessConnected(wait time.Duration, code int, reason string) *time.Timer {
	return time.AfterFunc(wait, func() {
		// The timer may have fired just before it was stopped.
		l.mu.Lock()
		connected := l.open > 0
		l.mu.Unlock()
		if !connected {
			l.lost(code, reason)
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

func peerUID(connection net.Conn) (uint32, error) {
	raw, err := connection.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var peerErr error
	// Not the pid: the runner lives in another pid namespace, where it is 0.
	err = raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil {
		return 0, err
	}
	if peerErr != nil {
		return 0, peerErr
	}
	return peer.Uid, nil
}
