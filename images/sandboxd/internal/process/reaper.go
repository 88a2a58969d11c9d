package process

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reaper waits for every child of this process, its own and those it inherits.
// Nothing else in the process may wait for one.
type Reaper struct {
	mu      sync.Mutex
	waiting map[int]chan unix.WaitStatus
	// commands of supervisors that were killed: they became our children.
	commands map[int]chan unix.WaitStatus
}

// NewReaper starts to reap.
func NewReaper() *Reaper {
	r := &Reaper{waiting: map[int]chan unix.WaitStatus{}, commands: map[int]chan unix.WaitStatus{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			r.collect()
		}
	}()
	return r
}

// StartSupervisor runs fork. supervised gets the status of the child and
// adopted that of its command, should it outlive its supervisor; both are closed
// then.
func (r *Reaper) StartSupervisor(fork func() (int, error)) (pid int, supervised, adopted <-chan unix.WaitStatus, err error) {
	// Held over the fork, lest the child be reaped before it is expected.
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err = fork()
	if err != nil {
		return 0, nil, nil, err
	}
	r.waiting[pid] = make(chan unix.WaitStatus, 1)
	r.commands[pid] = make(chan unix.WaitStatus, 1)
	return pid, r.waiting[pid], r.commands[pid], nil
}

// Forget drops a supervisor's command.
func (r *Reaper) Forget(supervisor int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.commands, supervisor)
}

func (r *Reaper) collect() {
	for r.collectOne() {
	}
}

func (r *Reaper) collectOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, status, err := nextZombie(unix.WNOHANG)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil || pid == 0 {
		return false
	}
	// Looked at before it is reaped: then it is still known whose it is.
	expected, key := r.waiting, pid
	if _, ok := r.waiting[pid]; !ok {
		var buffer [512]byte
		found, _ := readStat(strconv.Itoa(pid), buffer[:])
		if found.group == pid {
			expected, key = r.commands, found.session
		}
	}
	if _, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != nil {
		return errors.Is(err, unix.EINTR)
	}
	if channel, ok := expected[key]; ok {
		channel <- status
		close(channel)
		delete(expected, key)
	}
	return true
}

// nextZombie is a child that has ended, and how. It stays a zombie. With WNOHANG
// it is 0 if there is none now.
func nextZombie(options int) (int, unix.WaitStatus, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
	if err != nil {
		return 0, 0, err
	}
	// siginfo_t of SIGCHLD: signal, errno, code, padding, pid, uid, status.
	fields := (*[8]int32)(unsafe.Pointer(&info))
	pid, code, status := int(fields[4]), fields[2], uint32(fields[6])
	switch code {
	case cldExited:
		return pid, unix.WaitStatus(status << 8), nil
	case cldDumped:
		return pid, unix.WaitStatus(status | 0x80), nil
	}
	return pid, unix.WaitStatus(status), nil
}

// From <bits/siginfo-consts.h>.
const (
	cldExited = 1
	cldDumped = 3
)
