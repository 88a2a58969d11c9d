package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// Directories deeper than this are left out: each level holds a file open.
const maxDepth = 200

// maxSkipped bounds the report about what was left out.
const maxSkipped = 1000

const namesAtOnce = 512

// ErrChanged is a file that became shorter while it was read.
var ErrChanged = errors.New("became shorter while it was read")

// Pack writes a folder's contents as a tar stream. Links stay links and are
// never followed. It returns what a tar cannot carry, with the reason.
func Pack(folder string, w io.Writer) (skipped []string, err error) {
	top, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOTDIR) {
		err = fmt.Errorf("%s is not a directory: %w", folder, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	p := &packer{archive: tar.NewWriter(w)}
	if err := p.folder(top, "", 0); err != nil {
		return nil, err
	}
	return p.skipped, p.archive.Close()
}

type packer struct {
	archive *tar.Writer
	skipped []string
}

func (p *packer) skip(name, reason string) {
	switch {
	case len(p.skipped) < maxSkipped:
		p.skipped = append(p.skipped, fmt.Sprintf("%s: %s", name, reason))
	case len(p.skipped) == maxSkipped:
		p.skipped = append(p.skipped, "and more")
	}
}

// folder closes what it is given.
func (p *packer) folder(folder *os.File, prefix string, depth int) error {
	defer folder.Close()
	for {
		// In portions: an agent may have made millions of files.
		names, err := folder.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := p.entry(folder, path.Join(prefix, name), name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *packer) entry(folder *os.File, fullName, name string, depth int) error {
	var info unix.Stat_t
	if err := unix.Fstatat(int(folder.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return p.gone(fullName, err)
	}
	switch info.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return p.subfolder(folder, fullName, name, &info, depth)
	case unix.S_IFREG:
		return p.file(folder, fullName, name)
	case unix.S_IFLNK:
		return p.link(folder, fullName, name, &info)
	}
	p.skip(fullName, "is neither file, directory nor link")
	return nil
}

// gone passes over what vanished between listing and reading.
func (p *packer) gone(fullName string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		p.skip(fullName, "was removed or replaced meanwhile")
		return nil
	}
	return &fs.PathError{Op: "read", Path: fullName, Err: err}
}

func (p *packer) subfolder(folder *os.File, fullName, name string, info *unix.Stat_t, depth int) error {
	if depth == maxDepth {
		p.skip(fullName, fmt.Sprintf("lies deeper than %d levels", maxDepth))
		return nil
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return p.gone(fullName, err)
	}
	if err := p.header(tar.TypeDir, fullName+"/", "", 0, info); err != nil {
		unix.Close(fd)
		return err
	}
	return p.folder(os.NewFile(uintptr(fd), fullName), fullName, depth+1)
}

func (p *packer) link(folder *os.File, fullName, name string, info *unix.Stat_t) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(folder.Fd()), name, target)
	if err != nil {
		return p.gone(fullName, err)
	}
	return p.header(tar.TypeSymlink, fullName, string(target[:n]), 0, info)
}

func (p *packer) file(folder *os.File, fullName, name string) error {
	// Not following, not waiting: the name may lead elsewhere by now.
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return p.gone(fullName, err)
	}
	file := os.NewFile(uintptr(fd), fullName)
	defer file.Close()
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return p.gone(fullName, unix.ENOENT)
	}
	if err := p.header(tar.TypeReg, fullName, "", info.Size, &info); err != nil {
		return err
	}
	// What is appended meanwhile is left out; what is missing is an error.
	n, err := copyAll(p.archive, io.LimitReader(file, info.Size))
	if err == nil && n < info.Size {
		err = ErrChanged
	}
	if err != nil {
		return fmt.Errorf("%s: %w", fullName, err)
	}
	return nil
}

func (p *packer) header(kind byte, name, target string, size int64, info *unix.Stat_t) error {
	return p.archive.WriteHeader(&tar.Header{
		Typeflag: kind,
		Name:     name,
		Linkname: target,
		Size:     size,
		Mode:     int64(info.Mode & 0o777),
		ModTime:  time.Unix(info.Mtim.Unix()),
		// Unlike PAX, GNU takes names that are not UTF-8 as they are.
		Format: tar.FormatGNU,
	})
}
