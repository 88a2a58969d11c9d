package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
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
}

// NewManager returns a manager whose commands inherit env.
func NewManager(reaper *Reaper, env []string) (*Manager, error) {
	// Opened once: /dev/null belongs to whoever is root in the container.
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	return &Manager{reaper: reaper, env: env, null: null, calls: map[int]*call{}}, nil
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
	supervisors := len(m.calls)
	for _, c := range m.calls {
		c.phaseEnded.Store(true)
	}
	m.mu.Unlock()
	table, err := ReadTable()
	if err != nil {
		return 0, err
	}
	return max(len(table)-1-supervisors, 0), m.killAll()
}

const killAllWithin = 10 * time.Second

// killAll kills the whole pid namespace. One system call reaches all, and no
// fork can slip out of it; it is repeated only until the last is reaped.
func (m *Manager) killAll() error {
	if os.Getpid() != 1 {
		return errors.New("not PID 1: killing everything would reach beyond this container")
	}
	for give := time.Now().Add(killAllWithin); time.Now().Before(give); time.Sleep(2 * time.Millisecond) {
		if errors.Is(unix.Kill(-1, unix.SIGKILL), unix.ESRCH) {
			return nil
		}
		m.reaper.collect()
	}
	return fmt.Errorf("some processes outlived SIGKILL by %v", killAllWithin)
}

// Largest is the process whose death would free the most memory, this one and
// supervisors left out.
func (m *Manager) Largest() (Usage, bool) {
	table, err := ReadTable()
	if err != nil {
		return Usage{}, false
	}
	supervisors := m.supervisors()
	var largest Usage
	for pid := range table {
		if pid == os.Getpid() || slices.Contains(supervisors, pid) {
			continue
		}
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
		if supervisor, ok := table.Ancestor(pid, m.supervisors()); ok {
			m.mu.Lock()
			if c := m.calls[supervisor]; c != nil {
				c.oomKilled.Store(true)
				id = c.spec.ID
			}
			m.mu.Unlock()
		}
	}
	return id, unix.Kill(pid, unix.SIGKILL)
}

func (m *Manager) supervisors() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	pids := make([]int, 0, len(m.calls))
	for pid := range m.calls {
		pids = append(pids, pid)
	}
	return pids
}

func (m *Manager) oomKills() uint64 {
	if m.OOMKills == nil {
		return 0
	}
	return m.OOMKills()
}
