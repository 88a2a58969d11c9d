package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// EntryError is an entry of an archive that will not be written.
type EntryError struct {
	Name   string
	Reason error
}

func (e *EntryError) Error() string { return fmt.Sprintf("entry %q: %v", e.Name, e.Reason) }
func (e *EntryError) Unwrap() error { return e.Reason }

// FormatError is a stream that is no tar archive.
type FormatError struct{ Reason error }

func (e *FormatError) Error() string { return fmt.Sprintf("not a tar archive: %v", e.Reason) }
func (e *FormatError) Unwrap() error { return e.Reason }

// Extract writes an archive's entries into a folder, which is made if missing,
// and reads the stream to its end.
//
// Nothing is written outside of the folder, whatever the archive says and
// whatever links lie there already. Refused are absolute names, "..", links
// that leave the folder, devices and sparse files. Owners in the archive are
// dropped, and so are the set-user-ID, set-group-ID and sticky bits.
func Extract(folder string, r io.Reader, owner Owner) error {
	if err := MakeFolders(folder, owner); err != nil {
		return err
	}
	target, err := openBeneath(folder, owner)
	if err != nil {
		return err
	}
	defer target.close()
	stream := &faults{r: r}
	archive := tar.NewReader(stream)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err := stream.or(err); err != nil {
			return err
		}
		if err := extractEntry(target, header, archive); err != nil {
			if stream.err != nil {
				return stream.err
			}
			return &EntryError{Name: header.Name, Reason: err}
		}
	}
	_, err = copyAll(io.Discard, r)
	return err
}

func extractEntry(target *beneath, header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if path.IsAbs(header.Name) || !filepath.IsLocal(name) || strings.Contains(name, "\x00") {
		return errors.New("its name leaves the directory")
	}
	for key := range header.PAXRecords {
		// A few bytes could stand for any number of zeros.
		if strings.HasPrefix(key, "GNU.sparse") {
			return errors.New("is a sparse file")
		}
	}
	mode := header.FileInfo().Mode()
	switch header.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		if name == "." {
			return nil
		}
		return target.directory(name, mode, header.ModTime)
	case tar.TypeReg:
		folder, last, err := target.parent(name)
		if err != nil {
			return err
		}
		if last == "" || last == "." {
			return errors.New("is a file in the place of the directory itself")
		}
		return writeIn(folder, last, content, mode, target.owner, header.ModTime)
	case tar.TypeSymlink:
		return target.symlink(name, header.Linkname)
	case tar.TypeLink:
		return target.hardLink(name, header.Linkname)
	}
	return fmt.Errorf("is of type %q, which is not taken: only files, directories and links", header.Typeflag)
}

// faults remembers the stream's own error, which archive/tar may wrap or hide.
type faults struct {
	r   io.Reader
	err error
}

func (f *faults) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

func (f *faults) or(err error) error {
	if f.err != nil {
		return f.err
	}
	if err != nil {
		return &FormatError{Reason: err}
	}
	return nil
}
