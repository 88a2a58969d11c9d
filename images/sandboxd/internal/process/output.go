package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stream names one of a command's two outputs.
type Stream int

// The two outputs.
const (
	Stdout Stream = iota
	Stderr
)

const readSize = 64 << 10

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// newPipe returns our reading end and the descriptor to be inherited.
func newPipe() (*os.File, int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	// Only our end: the command must find an ordinary, blocking pipe. And
	// before NewFile, which then makes read deadlines work.
	if err := unix.SetNonblock(ends[0], true); err != nil {
		unix.Close(ends[0])
		unix.Close(ends[1])
		return nil, -1, err
	}
	return os.NewFile(uintptr(ends[0]), "output"), ends[1], nil
}

// pump passes on what comes out of a pipe until its end, or until a read
// deadline that is set on it. It tells whether the end was reached. An error
// is the consumer's.
func pump(pipe *os.File, consume func([]byte) error) (ended bool, err error) {
	buffer := readBuffers.Get().(*[readSize]byte)
	defer readBuffers.Put(buffer)
	for {
		n, err := pipe.Read(buffer[:])
		if n > 0 {
			if err := consume(buffer[:n]); err != nil {
				return false, err
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return pumpRest(pipe, buffer, consume)
		case err != nil:
			return true, nil
		}
	}
}

// pumpRest passes on what lies in a pipe now. A deadline that has passed hides
// it from Read, and it may be the command's last words, kept waiting by a slow
// reader. What is written meanwhile is a background child's: hence the bound.
func pumpRest(pipe *os.File, buffer *[readSize]byte, consume func([]byte) error) (ended bool, err error) {
	connection, err := pipe.SyscallConn()
	if err != nil {
		return true, nil
	}
	left := 0
	_ = connection.Control(func(fd uintptr) {
		left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	})
	for left > 0 {
		n := 0
		var readErr error
		_ = connection.Control(func(fd uintptr) {
			n, readErr = syscall.Read(int(fd), buffer[:min(left, readSize)])
		})
		if n <= 0 || readErr != nil {
			break
		}
		left -= n
		if err := consume(buffer[:n]); err != nil {
			return false, err
		}
	}
	return false, nil
}

// discard keeps a pipe open and empty until its writers are gone, so that a
// background child may write to it without dying of it.
func discard(pipe *os.File) {
	_ = pipe.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, pipe)
	pipe.Close()
}
