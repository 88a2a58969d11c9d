package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// beneath writes below one directory and can reach nothing outside of it: the
// way to an entry is walked by os.Root, the entry itself is never followed.
type beneath struct {
	root  *os.Root
	owner Owner

	// The folder used last, because an archive lists a folder's files in a row.
	folder     *os.File
	folderName string
}

func openBeneath(folder string, owner Owner) (*beneath, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	return &beneath{root: root, owner: owner}, nil
}

func (b *beneath) close() {
	b.forget()
	b.root.Close()
}

func (b *beneath) forget() {
	if b.folder != nil {
		b.folder.Close()
		b.folder = nil
	}
}

// parent opens the folder that name lies in, made where it is missing, and
// returns name's last part.
func (b *beneath) parent(name string) (*os.File, string, error) {
	folderName, last := path.Split(name)
	folderName = path.Clean(folderName)
	if b.folder != nil && b.folderName == folderName {
		return b.folder, last, nil
	}
	b.forget()
	if err := b.mkdirAll(folderName); err != nil {
		return nil, "", err
	}
	folder, err := b.root.OpenFile(folderName, unix.O_DIRECTORY|os.O_RDONLY, 0)
	if err != nil {
		return nil, "", err
	}
	b.folder, b.folderName = folder, folderName
	return folder, last, nil
}

func (b *beneath) mkdirAll(name string) error {
	if name == "." {
		return nil
	}
	for end := 0; end < len(name); {
		next := strings.IndexByte(name[end:], '/')
		if next < 0 {
			next = len(name) - end
		}
		part := name[:end+next]
		end += next + 1
		err := b.root.Mkdir(part, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := b.inFolder(part, func(fd int) error { return b.owner.apply(fd) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *beneath) inFolder(name string, do func(fd int) error) error {
	folder, err := b.root.OpenFile(name, unix.O_DIRECTORY|os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer folder.Close()
	return do(int(folder.Fd()))
}

func (b *beneath) directory(name string, mode fs.FileMode, modified time.Time) error {
	if err := b.mkdirAll(name); err != nil {
		return err
	}
	return b.inFolder(name, func(fd int) error {
		// Our own bits stay, so that the entries below can be written.
		if err := unix.Fchmod(fd, uint32(mode.Perm())|0o700); err != nil {
			return err
		}
		if err := b.owner.apply(fd); err != nil {
			return err
		}
		return setTime(fd, modified)
	})
}

func (b *beneath) symlink(name, target string) error {
	if path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return fmt.Errorf("is a symbolic link to %s, which leaves the directory", target)
	}
	folder, last, err := b.replaceable(name)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(target, folder, last); err != nil {
		return err
	}
	return b.owner.applyTo(folder, last)
}

func (b *beneath) hardLink(name, target string) error {
	target = path.Clean(target)
	if !filepath.IsLocal(target) {
		return fmt.Errorf("is a hard link to %s, which leaves the directory", target)
	}
	source, err := b.root.OpenFile(path.Dir(target), unix.O_DIRECTORY|os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer source.Close()
	var info unix.Stat_t
	if err := unix.Fstatat(int(source.Fd()), path.Base(target), &info, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("is a hard link to %s, which is not a file", target)
	}
	folder, last, err := b.replaceable(name)
	if err != nil {
		return err
	}
	return unix.Linkat(int(source.Fd()), path.Base(target), folder, last, 0)
}

// replaceable removes what is not a directory from where name is to be.
func (b *beneath) replaceable(name string) (folder int, last string, err error) {
	parent, last, err := b.parent(name)
	if err != nil {
		return 0, "", err
	}
	if err := unix.Unlinkat(int(parent.Fd()), last, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return 0, "", err
	}
	return int(parent.Fd()), last, nil
}
