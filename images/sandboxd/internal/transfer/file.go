// Package transfer moves files and directories between the container's file
// system and streams, in memory that does not grow with them.
package transfer

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bufferSize is the most that is held of any stream at a time.
const bufferSize = 256 << 10

// Owner of what is written. The zero value leaves it to sandboxd's own user.
type Owner struct {
	Set      bool
	UID, GID uint32
}

func (o Owner) apply(fd int) error {
	if !o.Set {
		return nil
	}
	return unix.Fchown(fd, int(o.UID), int(o.GID))
}

func (o Owner) applyTo(folder int, name string) error {
	if !o.Set {
		return nil
	}
	return unix.Fchownat(folder, name, int(o.UID), int(o.GID), unix.AT_SYMLINK_NOFOLLOW)
}

// WriteFile writes a file whole or not at all: until r has ended well, there is
// nothing at path but what was there before. Missing folders are made.
func WriteFile(path string, r io.Reader, size uint64, mode fs.FileMode, owner Owner) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return &fs.PathError{Op: "write", Path: path, Err: unix.EISDIR}
	}
	folderPath := filepath.Dir(path)
	if err := MakeFolders(folderPath, owner); err != nil {
		return err
	}
	folder, err := os.Open(folderPath)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := roomFor(folder, size); err != nil {
		return err
	}
	return writeIn(folder, filepath.Base(path), r, mode, owner, time.Time{})
}

// MakeFolders makes a folder and those above it, and gives the new ones to owner.
func MakeFolders(path string, owner Owner) error {
	info, err := os.Stat(path)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "make", Path: path, Err: unix.ENOTDIR}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := MakeFolders(filepath.Dir(path), owner); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return owner.applyTo(unix.AT_FDCWD, path)
}

// writeIn writes to a new file and renames it when it is whole.
func writeIn(folder *os.File, name string, r io.Reader, mode fs.FileMode, owner Owner, modified time.Time) (err error) {
	temporary := temporaryName()
	fd, err := unix.Openat(int(folder.Fd()), temporary,
		unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "create a file in", Path: folder.Name(), Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(int(folder.Fd()), temporary, 0)
		}
	}()
	if _, err := copyAll(file, r); err != nil {
		return err
	}
	if err := owner.apply(fd); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, uint32(mode.Perm())); err != nil {
		return err
	}
	if err := setTime(fd, modified); err != nil {
		return err
	}
	// Some file systems tell of a full disk only here.
	if err := file.Close(); err != nil {
		return err
	}
	return unix.Renameat(int(folder.Fd()), temporary, int(folder.Fd()), name)
}

func temporaryName() string {
	var random [8]byte
	_, _ = rand.Read(random[:])
	return ".sandboxd-" + hex.EncodeToString(random[:])
}

func setTime(fd int, modified time.Time) error {
	if modified.IsZero() || modified.Unix() < 0 {
		return nil
	}
	at := unix.NsecToTimeval(modified.UnixNano())
	return unix.Futimes(fd, []unix.Timeval{at, at})
}

func roomFor(folder *os.File, size uint64) error {
	var state unix.Statfs_t
	if err := unix.Fstatfs(int(folder.Fd()), &state); err != nil || state.Blocks == 0 {
		return nil
	}
	if free := state.Bavail * uint64(state.Bsize); size > free {
		return fmt.Errorf("%d bytes do not fit into %s, where %d are free: %w", size, folder.Name(), free, unix.ENOSPC)
	}
	return nil
}

// OpenFile opens a regular file for reading. It never waits for a writer, as
// opening a named pipe would.
func OpenFile(path string) (*os.File, fs.FileMode, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Mode().Perm(), nil
}

// One buffer a copy would be garbage for every file of an archive.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func copyAll(w io.Writer, r io.Reader) (int64, error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	return io.CopyBuffer(onlyWriter{w}, onlyReader{r}, buffer[:])
}

// The two hide ReadFrom and WriteTo, which would choose buffers of their own.
type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }
