package process

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainFor is how long a call waits for the end of its output once its process
// has ended: a background child may hold it open for ever.
const drainFor = 2 * time.Second

// killWithin is how long a supervisor may take to kill what is below it. A
// fork bomb can outrun any loop; then all of the container dies at once.
const killWithin = 5 * time.Second

// Exit is how a command ended.
type Exit struct {
	Status    unix.WaitStatus
	TimedOut  bool
	OOMKilled bool
}

// Sink receives what a call does. Output may be called from two goroutines at
// the same time; data is valid during the call only.
type Sink interface {
	Started(pid int) error
	Output(stream Stream, data []byte) error
}

type call struct {
	spec       *Spec
	manager    *Manager
	supervisor int
	command    int
	control    net.Conn
	orders     *json.Encoder
	ordering   sync.Mutex
	reports    *json.Decoder
	pipes      [2]*os.File
	// pumping is set once the pipes close by themselves.
	pumping bool
	// supervised gets the supervisor's own end, adopted the command's where the
	// supervisor was killed from within the container, say by `kill -9 -1`.
	supervised <-chan unix.WaitStatus
	adopted    <-chan unix.WaitStatus

	phaseEnded atomic.Bool
	oomKilled  atomic.Bool
}

// Run runs a command and returns when it has ended and its output was passed
// on. When ctx is done or the timeout passes, it kills every process that the
// command started, and only then returns.
func (m *Manager) Run(ctx context.Context, spec *Spec, sink Sink) (Exit, error) {
	command, err := resolve(spec, m.env)
	if err != nil {
		return Exit{}, err
	}
	oomKillsBefore := m.oomKills()
	c, err := m.start(spec, command)
	if err != nil {
		return Exit{}, err
	}
	defer c.close()
	exit, err := c.run(ctx, sink)
	if c.phaseEnded.Load() {
		return Exit{}, ErrPhaseEnded
	}
	exit.OOMKilled = c.oomKilled.Load() || (killed(exit.Status) && m.oomKills() > oomKillsBefore)
	return exit, err
}

func killed(status unix.WaitStatus) bool {
	return status.Signaled() && status.Signal() == unix.SIGKILL ||
		status.Exited() && status.ExitStatus() == 128+int(unix.SIGKILL)
}

func (m *Manager) start(spec *Spec, command *resolved) (*call, error) {
	m.starting.RLock()
	defer m.starting.RUnlock()
	c := &call{spec: spec, manager: m}
	if err := c.startSupervisor(); err != nil {
		c.close()
		return nil, fmt.Errorf("starting a supervisor: %w", err)
	}
	if err := c.startCommand(command); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *call) startSupervisor() error {
	control, theirs, err := controlSocket()
	if err != nil {
		return err
	}
	defer unix.Close(theirs)
	c.control, c.orders, c.reports = control, json.NewEncoder(control), json.NewDecoder(control)
	files := []uintptr{c.manager.null.Fd(), 2, 2, uintptr(theirs)}
	for i := range c.pipes {
		pipe, writer, err := newPipe()
		if err != nil {
			return err
		}
		defer unix.Close(writer)
		c.pipes[i] = pipe
		files = append(files, uintptr(writer))
	}
	c.supervisor, c.supervised, c.adopted, err = c.manager.reaper.StartSupervisor(func() (int, error) {
		return syscall.ForkExec("/proc/self/exe", []string{"sandboxd", "supervise"}, &syscall.ProcAttr{
			// Small and quiet, whatever the container's environment says.
			Env:   []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=8MiB"},
			Files: files,
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	})
	if err != nil {
		return err
	}
	c.manager.began(c)
	return nil
}

func controlSocket() (net.Conn, int, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	file := os.NewFile(uintptr(ends[0]), "control")
	defer file.Close()
	control, err := net.FileConn(file)
	if err != nil {
		unix.Close(ends[1])
		return nil, -1, err
	}
	return control, ends[1], nil
}

func (c *call) startCommand(command *resolved) error {
	if err := c.order(order{Start: command}); err != nil {
		return c.lost("telling the supervisor what to run", err)
	}
	var first report
	if err := c.reports.Decode(&first); err != nil {
		// The command may have killed its supervisor before that could report it.
		<-c.supervised
		first.Started = commandOf(c.supervisor)
		c.manager.reaper.collect()
		if first.Started == 0 && len(c.adopted) == 0 {
			return c.lost("waiting for the command to start", err)
		}
	} else if first.Started == 0 {
		return startFailure(first)
	}
	c.command = first.Started
	return nil
}

func startFailure(failed report) error {
	switch failed.Errno {
	case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE:
		return fmt.Errorf("%s: %w", failed.Failed, failed.Errno)
	case unix.E2BIG:
		return refuse("%s; arguments and environment together are too large", failed.Failed)
	}
	return refuse("%s", failed.Failed)
}

func (c *call) lost(doing string, err error) error {
	if c.phaseEnded.Load() {
		return ErrPhaseEnded
	}
	return fmt.Errorf("%s: the supervisor was killed from within the container: %w", doing, err)
}

func (c *call) run(ctx context.Context, sink Sink) (Exit, error) {
	if err := sink.Started(c.command); err != nil {
		c.kill()
		return Exit{}, err
	}
	drained := c.pumpOutput(sink)
	expired, stop := after(c.spec.Timeout)
	defer stop()
	ended := c.watchEnd()
	select {
	case status := <-ended:
		return c.drain(ctx, status, drained)
	case <-ctx.Done():
		return Exit{}, c.abandon(ctx, drained)
	case <-expired:
		c.kill()
		status := <-ended
		exit, err := c.drain(ctx, status, drained)
		exit.TimedOut = true
		return exit, err
	}
}

func after(timeout time.Duration) (<-chan time.Time, func()) {
	if timeout <= 0 {
		return nil, func() {}
	}
	timer := time.NewTimer(timeout)
	return timer.C, func() { timer.Stop() }
}

// pumpOutput passes on both outputs, and closes the channel when both are done.
func (c *call) pumpOutput(sink Sink) <-chan struct{} {
	c.pumping = true
	done := make(chan struct{})
	var both sync.WaitGroup
	both.Add(len(c.pipes))
	for i, pipe := range c.pipes {
		go func() {
			defer both.Done()
			ended, _ := pump(pipe, func(data []byte) error { return sink.Output(Stream(i), data) })
			if ended {
				pipe.Close()
			} else {
				go discard(pipe)
			}
		}()
	}
	go func() {
		both.Wait()
		close(done)
	}()
	return done
}

// watchEnd reports the command's status once.
func (c *call) watchEnd() <-chan unix.WaitStatus {
	ended := make(chan unix.WaitStatus, 1)
	go func() {
		for {
			var next report
			if err := c.reports.Decode(&next); err != nil {
				ended <- c.statusAfterLoss()
				return
			}
			if next.Exited {
				ended <- next.Status
				return
			}
		}
	}()
	return ended
}

// statusAfterLoss waits for a command whose supervisor is gone: killed by us, or
// by a root user in the container. In the latter case the command is our child
// now, and its end is still the call's.
func (c *call) statusAfterLoss() unix.WaitStatus {
	<-c.supervised
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for commandOf(c.supervisor) != 0 {
		select {
		case status := <-c.adopted:
			return status
		case <-again.C:
		}
	}
	c.manager.reaper.collect()
	select {
	case status := <-c.adopted:
		return status
	default:
		// The supervisor had reaped it, and died before it could say so.
		return unix.WaitStatus(unix.SIGKILL)
	}
}

func (c *call) drain(ctx context.Context, status unix.WaitStatus, drained <-chan struct{}) (Exit, error) {
	limit := time.Now().Add(drainFor)
	for _, pipe := range c.pipes {
		_ = pipe.SetReadDeadline(limit)
	}
	select {
	case <-drained:
		_ = c.order(order{Release: true})
		return Exit{Status: status}, nil
	case <-ctx.Done():
		return Exit{}, c.abandon(ctx, drained)
	}
}

// abandon kills, and makes sure that the sink is not used any more.
func (c *call) abandon(ctx context.Context, drained <-chan struct{}) error {
	c.kill()
	for _, pipe := range c.pipes {
		_ = pipe.SetReadDeadline(time.Now())
	}
	<-drained
	return ctx.Err()
}

// kill ends everything the call started and waits until it is gone.
func (c *call) kill() {
	select {
	case <-c.supervised:
		c.killAdopted()
		return
	default:
	}
	_ = c.order(order{Kill: true})
	select {
	case <-c.supervised:
	case <-time.After(killWithin):
		fmt.Fprintf(os.Stderr, "sandboxd: call %q outran its supervisor; killing everything in the container\n", c.spec.ID)
		_ = c.manager.killAll()
	}
}

// killAdopted does what it can where the supervisor was killed from within: the
// command is our child now, and what it has orphaned lives until the phase ends.
func (c *call) killAdopted() {
	command := commandOf(c.supervisor)
	if command == 0 {
		return
	}
	passes := 0
	killBelow(command, func() bool { passes++; return passes > 2 })
	_ = unix.Kill(command, unix.SIGKILL)
}

func (c *call) signal(signal unix.Signal) {
	_ = c.order(order{Signal: int(signal)})
}

func (c *call) order(o order) error {
	c.ordering.Lock()
	defer c.ordering.Unlock()
	return c.orders.Encode(o)
}

func (c *call) close() {
	if c.control != nil {
		c.control.Close()
	}
	c.manager.reaper.Forget(c.supervisor)
	if !c.pumping {
		for _, pipe := range c.pipes {
			if pipe != nil {
				pipe.Close()
			}
		}
	}
	c.manager.over(c)
}
