package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Table is a snapshot of the container's processes, parent by child.
type Table map[int]int

// ReadTable lists every process. Zombies too: one whose first thread has ended
// looks like one while its other threads run on.
func ReadTable() (Table, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	table := make(Table, len(names))
	var buffer [512]byte
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if found, ok := readStat(name, buffer[:]); ok {
			table[pid] = found.parent
		}
	}
	return table, nil
}

type stat struct {
	parent, group, session int
	state                  byte
}

func readStat(pid string, buffer []byte) (found stat, ok bool) {
	n := readInto("/proc/"+pid+"/stat", buffer)
	// "pid (command) state parent group session …": the command may itself hold
	// parentheses.
	end := bytes.LastIndexByte(buffer[:n], ')')
	if end < 0 {
		return stat{}, false
	}
	fields := bytes.Fields(buffer[end+1 : n])
	if len(fields) < 4 || fields[0][0] == 'X' {
		return stat{}, false
	}
	found.state = fields[0][0]
	for i, number := range []*int{&found.parent, &found.group, &found.session} {
		value, err := strconv.Atoi(string(fields[i+1]))
		if err != nil {
			return stat{}, false
		}
		*number = value
	}
	return found, true
}

// isHalted tells whether a process that was sent SIGSTOP runs no program any
// more: stopped, a zombie, gone, or held in the kernel, as a parent in vfork is
// for as long as its child is stopped.
func isHalted(pid int) bool {
	found, ok := readStat(strconv.Itoa(pid), make([]byte, 512))
	return !ok || bytes.IndexByte([]byte("TtZD"), found.state) >= 0
}

// commandOf finds the command of a supervisor: the leader of a process group in
// the supervisor's session. It is 0 when that has been reaped.
func commandOf(supervisor int) int {
	table, err := ReadTable()
	if err != nil {
		return 0
	}
	var buffer [512]byte
	for pid := range table {
		if pid != supervisor && isCommandOf(pid, supervisor, buffer[:]) {
			return pid
		}
	}
	return 0
}

func isCommandOf(pid, supervisor int, buffer []byte) bool {
	found, ok := readStat(strconv.Itoa(pid), buffer)
	return ok && found.session == supervisor && found.group == pid && pid != supervisor
}

func readInto(path string, buffer []byte) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, buffer)
	return max(n, 0)
}

// IsBelow tells whether root is an ancestor of pid.
func (t Table) IsBelow(pid, root int) bool {
	// A snapshot of moving processes could hold a ring.
	for range len(t) {
		parent, ok := t[pid]
		if !ok {
			return false
		}
		if parent == root {
			return true
		}
		pid = parent
	}
	return false
}

// Descendants are all processes below root, without itself.
func (t Table) Descendants(root int) []int {
	var found []int
	for pid := range t {
		if t.IsBelow(pid, root) {
			found = append(found, pid)
		}
	}
	return found
}

// ResidentBytes is all of a process's resident memory, mapped files included.
func ResidentBytes(pid int) uint64 {
	return bytesOfKB(readStatus(pid)["VmRSS"])
}

// Usage is the memory that would come free if a process died.
type Usage struct {
	PID     int
	Command string
	// Bytes counts anonymous and shared memory, not mapped files: the kernel
	// gives those back by itself.
	Bytes uint64
}

// ReadUsage reads one process; ok is false when it is gone.
func ReadUsage(pid int) (usage Usage, ok bool) {
	status := readStatus(pid)
	_, ok = status["RssAnon"]
	return Usage{
		PID:     pid,
		Command: status["Name"],
		Bytes:   bytesOfKB(status["RssAnon"]) + bytesOfKB(status["RssShmem"]),
	}, ok
}

func readStatus(pid int) map[string]string {
	buffer := make([]byte, 4096)
	n := readInto("/proc/"+strconv.Itoa(pid)+"/status", buffer)
	status := map[string]string{}
	for line := range strings.Lines(string(buffer[:n])) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	return status
}

func bytesOfKB(value string) uint64 {
	kilobytes, err := strconv.ParseUint(strings.TrimSuffix(value, " kB"), 10, 53)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}
