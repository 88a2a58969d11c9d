package process

import (
	"errors"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper waits for every child of this process, its own and those it inherits.
// Nothing else in the process may wait for one.
type Reaper struct {
	mu      sync.Mutex
	waiting map[int]chan unix.WaitStatus
}

// NewReaper starts to reap.
func NewReaper() *Reaper {
	r := &Reaper{waiting: map[int]chan unix.WaitStatus{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			r.collect()
		}
	}()
	return r
}

// Start runs fork and returns a channel that gets the child's status and is closed.
func (r *Reaper) Start(fork func() (int, error)) (int, <-chan unix.WaitStatus, error) {
	// Held over the fork, lest the child be reaped before it is expected.
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	return pid, r.expect(pid), nil
}

// Expect returns a channel that gets the status of a process if it ever
// becomes our child and ends as such.
func (r *Reaper) Expect(pid int) <-chan unix.WaitStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expect(pid)
}

func (r *Reaper) expect(pid int) <-chan unix.WaitStatus {
	status := make(chan unix.WaitStatus, 1)
	r.waiting[pid] = status
	return status
}

// Forget undoes Expect, unless the number has been given to another process.
func (r *Reaper) Forget(pid int, expected <-chan unix.WaitStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[pid] == expected {
		delete(r.waiting, pid)
	}
}

func (r *Reaper) collect() {
	for {
		r.mu.Lock()
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if waiting, ok := r.waiting[pid]; ok && pid > 0 {
			waiting <- status
			close(waiting)
			delete(r.waiting, pid)
		}
		r.mu.Unlock()
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
