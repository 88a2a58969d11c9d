package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrPhaseEnded is returned by Run for a command that EndPhase killed.
var ErrPhaseEnded = errors.New("the phase ended and everything in the container was killed")

// Manager runs commands as PID 1 of a container.
type Manager struct {
	// OOMKills counts kills by the kernel so far. May be nil.
	OOMKills func() uint64

	reaper *Reaper
	env    []string
	null   *os.File

	// starting is held for reading while a command starts, and for writing
	// while everything dies, so that nothing slips through.
	starting sync.RWMutex

	mu    sync.Mutex
	calls map[int]*call // by the supervisor's pid
	// supervisors that live; a call may have ended just before its own does.
	supervisors map[int]bool
}

// NewManager returns a manager whose commands inherit env.
func NewManager(reaper *Reaper, env []string) (*Manager, error) {
	// Opened once: /dev/null belongs to whoever is root in the container.
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	return &Manager{reaper: reaper, env: env, null: null, calls: map[int]*call{}, supervisors: map[int]bool{}}, nil
}

// Running counts the calls that run.
func (m *Manager) Running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.calls)
}

// Signal sends a signal to the process group of a running call. It tells
// whether there is such a call.
func (m *Manager) Signal(id string, signal unix.Signal) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.calls {
		if id != "" && c.spec.ID == id {
			c.signal(signal)
			return true
		}
	}
	return false
}

// EndPhase kills every process but this one, and counts them.
func (m *Manager) EndPhase() (int, error) {
	m.starting.Lock()
	defer m.starting.Unlock()
	m.mu.Lock()
	for _, c := range m.calls {
		c.phaseEnded.Store(true)
	}
	m.mu.Unlock()
	processes, err := m.Processes()
	if err != nil {
		return 0, err
	}
	return len(processes), m.killAll()
}

// Pause stops every process but this one until Resume, and counts them. It
// returns when the last has stopped.
func (m *Manager) Pause() (int, error) {
	m.starting.Lock()
	defer m.starting.Unlock()
	processes, err := m.Processes()
	if err != nil {
		return 0, err
	}
	return len(processes), stopAll()
}

// Resume lets every process run on.
func (m *Manager) Resume() error {
	_, err := signalAll(unix.SIGCONT)
	return err
}

// Processes are all in the container but this one, its supervisors and zombies.
func (m *Manager) Processes() ([]int, error) {
	table, err := ReadTable()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var pids []int
	for pid := range table {
		if pid != os.Getpid() && !m.supervisors[pid] && ResidentBytes(pid) > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

const (
	signalAgain     = 2 * time.Millisecond
	signalAllWithin = 10 * time.Second
)

// stopAll stops the whole pid namespace. A process stops when it next runs, so
// it waits for that.
func stopAll() error {
	for give := time.Now().Add(signalAllWithin); time.Now().Before(give); time.Sleep(signalAgain) {
		if _, err := signalAll(unix.SIGSTOP); err != nil {
			return err
		}
		if allHalted() {
			return nil
		}
	}
	return fmt.Errorf("some processes did not stop within %v", signalAllWithin)
}

func allHalted() bool {
	table, err := ReadTable()
	if err != nil {
		return false
	}
	for pid := range table {
		if pid != os.Getpid() && !isHalted(pid) {
			return false
		}
	}
	return true
}

// killAll kills the whole pid namespace; it repeats that only until the last is
// reaped.
func (m *Manager) killAll() error {
	for give := time.Now().Add(signalAllWithin); time.Now().Before(give); time.Sleep(signalAgain) {
		if some, err := signalAll(unix.SIGKILL); err != nil || !some {
			return err
		}
		m.reaper.collect()
	}
	return fmt.Errorf("some processes outlived SIGKILL by %v", signalAllWithin)
}

// signalAll sends a signal to the whole pid namespace but this process, and
// tells whether there was another. One system call reaches all, and no fork can
// slip out of it.
func signalAll(signal unix.Signal) (some bool, err error) {
	if os.Getpid() != 1 {
		return false, fmt.Errorf("not PID 1: %v to everything would reach beyond this container", signal)
	}
	err = unix.Kill(-1, signal)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return err == nil, err
}

// Largest is the process whose death would free the most memory, this one and
// supervisors left out.
func (m *Manager) Largest() (Usage, bool) {
	pids, err := m.Processes()
	if err != nil {
		return Usage{}, false
	}
	var largest Usage
	for _, pid := range pids {
		if usage, ok := ReadUsage(pid); ok && usage.Bytes > largest.Bytes {
			largest = usage
		}
	}
	return largest, largest.Bytes > 0
}

// KillForMemory kills a process and marks the call that it belongs to. It
// returns that call's ID, empty where the process had outlived its call.
func (m *Manager) KillForMemory(pid int) (string, error) {
	id := ""
	if table, err := ReadTable(); err == nil {
		m.mu.Lock()
		if c := m.callOf(table, pid); c != nil {
			c.oomKilled.Store(true)
			id = c.spec.ID
		}
		m.mu.Unlock()
	}
	return id, unix.Kill(pid, unix.SIGKILL)
}

func (m *Manager) callOf(table Table, pid int) *call {
	for supervisor, c := range m.calls {
		if table.IsBelow(pid, supervisor) {
			return c
		}
	}
	return nil
}

// began and over keep account of a supervisor.
func (m *Manager) began(c *call) {
	m.mu.Lock()
	m.calls[c.supervisor], m.supervisors[c.supervisor] = c, true
	m.mu.Unlock()
	go func() {
		<-c.supervised
		m.mu.Lock()
		delete(m.supervisors, c.supervisor)
		m.mu.Unlock()
	}()
}

func (m *Manager) over(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.calls, c.supervisor)
}

func (m *Manager) oomKills() uint64 {
	if m.OOMKills == nil {
		return 0
	}
	return m.OOMKills()
}
