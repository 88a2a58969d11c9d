package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// The files a supervisor inherits.
const (
	controlFD = 3
	stdoutFD  = 4
	stderrFD  = 5
)

// order is what PID 1 tells a supervisor. Losing the connection means "kill".
type order struct {
	// Start comes first, once.
	Start *resolved `json:",omitempty"`
	// Signal goes to the command's process group.
	Signal int `json:",omitempty"`
	// Release ends the supervisor; what the command left behind lives on.
	Release bool `json:",omitempty"`
	// Kill ends everything below the supervisor, then itself.
	Kill bool `json:",omitempty"`
}

// report is what a supervisor tells PID 1.
type report struct {
	Started int             `json:",omitempty"`
	Failed  string          `json:",omitempty"`
	Errno   syscall.Errno   `json:",omitempty"`
	Exited  bool            `json:",omitempty"`
	Status  unix.WaitStatus `json:",omitempty"`
}

// Supervise is the main function of a supervisor: the parent of one command,
// and the subreaper that inherits whatever the command orphans, so that none
// of it can leave the call by forking twice or by a session of its own.
func Supervise() error {
	IgnoreSignals()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a subreaper: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing /proc/self to others: %w", err)
	}
	// The command gets its three files and no other, whatever we inherited.
	if err := unix.CloseRange(controlFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		for _, fd := range []int{controlFD, stdoutFD, stderrFD} {
			unix.CloseOnExec(fd)
		}
	}
	inherited := os.NewFile(controlFD, "control")
	control, err := net.FileConn(inherited)
	inherited.Close()
	if err != nil {
		return fmt.Errorf("control socket (sandboxd starts supervisors by itself): %w", err)
	}
	s := &supervisor{reports: json.NewEncoder(control)}
	orders := json.NewDecoder(control)
	var first order
	if err := orders.Decode(&first); err != nil || first.Start == nil {
		return fmt.Errorf("no command to start: %w", err)
	}
	if !s.start(first.Start) {
		return nil
	}
	go s.reap()
	s.obey(orders)
	return nil
}

type supervisor struct {
	reports *json.Encoder
	command int
	// exited stops signals to a process group whose number may be taken again.
	exited atomic.Bool
	// childless is set while nothing is below us.
	childless atomic.Bool
}

func (s *supervisor) start(command *resolved) bool {
	attributes := &syscall.ProcAttr{
		Dir:   string(command.Cwd),
		Env:   textsOf(command.Env),
		Files: []uintptr{0, stdoutFD, stderrFD},
		// A group, not a session: by the session PID 1 knows whose command this
		// is, even after it has killed us.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	if command.SwitchUser {
		attributes.Sys.Credential = &syscall.Credential{Uid: command.UID, Gid: command.GID, Groups: command.Groups}
	}
	pid, err := syscall.ForkExec(string(command.Program), textsOf(command.Args), attributes)
	unix.Close(stdoutFD)
	unix.Close(stderrFD)
	if err != nil {
		failed := report{Failed: fmt.Sprintf("starting %s: %v", command.Program, err)}
		errors.As(err, &failed.Errno)
		_ = s.reports.Encode(failed)
		return false
	}
	s.command = pid
	_ = s.reports.Encode(report{Started: pid})
	return true
}

// reap waits for all that is below us and reports the command's own end.
func (s *supervisor) reap() {
	for {
		// Told before it is reaped: if the command killed us as it went, PID 1
		// inherits the zombie and learns of its end from that.
		pid, status, err := nextZombie(0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			// ECHILD, and for good: with no child there is nobody who could fork.
			s.childless.Store(true)
			return
		case pid == s.command:
			s.exited.Store(true)
			_ = s.reports.Encode(report{Exited: true, Status: status})
			fallthrough
		default:
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
}

func (s *supervisor) obey(orders *json.Decoder) {
	for {
		var next order
		if err := orders.Decode(&next); err != nil {
			next = order{Kill: true}
		}
		switch {
		case next.Release:
			return
		case next.Kill:
			killBelow(os.Getpid(), s.childless.Load)
			return
		case next.Signal != 0 && !s.exited.Load():
			_ = unix.Kill(-s.command, unix.Signal(next.Signal))
		}
	}
}

func textsOf(texts [][]byte) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = string(text)
	}
	return out
}
