package process

import (
	"time"

	"golang.org/x/sys/unix"
)

const stopSweeps = 64

// killBelow ends every descendant of root. It returns when done says so.
//
// What forks while it is being counted escapes a single pass. So all are first
// stopped, again and again until a pass finds no new one, and only then
// killed: a stopped process forks no more, and keeps the place that a fork
// bomb would need for the next.
func killBelow(root int, done func() bool) {
	stopped := map[int]bool{}
	for range stopSweeps {
		if signalNew(root, unix.SIGSTOP, stopped) == 0 {
			break
		}
	}
	pause := time.Millisecond
	for !done() {
		signalNew(root, unix.SIGKILL, map[int]bool{})
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// signalNew signals the descendants that are not in seen, and counts them.
func signalNew(root int, signal unix.Signal, seen map[int]bool) int {
	table, err := ReadTable()
	if err != nil {
		return 0
	}
	fresh := 0
	for _, pid := range table.Descendants(root) {
		if !seen[pid] {
			seen[pid] = true
			fresh++
			_ = unix.Kill(pid, signal)
		}
	}
	return fresh
}
