package process

import (
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// IgnoreSignals makes this process deaf to every signal that can be caught.
// They are caught and dropped: an ignored signal would be inherited by the
// commands, and Go ends the program on some that nobody has asked for.
func IgnoreSignals() {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped)
	go func() {
		for range dropped {
		}
	}()
}

// DefaultFaults gives the signals of a fault back to the kernel. Go takes each
// of them for a bug of its own and ends the program, and a root user can forge
// one (rt_sigqueueinfo): that would end the container, and thereby a try that
// goes badly. As PID 1 a process is spared by default, but for real faults.
func DefaultFaults() {
	faults := []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, unix.SIGSTKFLT}
	// The kernel's struct sigaction, with SIG_DFL and no flags.
	var action [4]uint64
	for _, fault := range faults {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(fault), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}
