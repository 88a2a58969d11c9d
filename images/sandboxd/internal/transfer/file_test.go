package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func ownerIDs(t *testing.T, path string) (uint32, uint32) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	state := info.Sys().(*syscall.Stat_t)
	return state.Uid, state.Gid
}

func TestWriteFileReplacesWholeOrNotAtAll(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a", "b", "f")
	if err := WriteFile(path, strings.NewReader("first"), 5, 0o755, Owner{}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the connection broke")
	err := WriteFile(path, io.MultiReader(strings.NewReader("half"), failing{broken}), 0, 0o644, Owner{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o755 || read1(t, path) != "first" {
		t.Errorf("the old file is gone: %v, %v", info, err)
	}
	if got := namesIn(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("something is left over: %v", got)
	}
}

func TestWriteFileRefuses(t *testing.T) {
	folder := t.TempDir()
	if err := WriteFile(folder, strings.NewReader(""), 0, 0o644, Owner{}); !errors.Is(err, unix.EISDIR) {
		t.Errorf("onto a folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(folder, "f", "g"), strings.NewReader(""), 0, 0o644, Owner{}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	err := WriteFile(filepath.Join(folder, "big"), strings.NewReader(""), math.MaxInt64, 0o644, Owner{})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "are free") {
		t.Errorf("larger than the disk: %v", err)
	}
}

func TestOpenFileTakesFilesOnly(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, pipe, filepath.Join(folder, "missing")} {
		if _, _, err := OpenFile(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestPackThenExtractIsTheSame(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	big := strings.Repeat("0123456789", 100_000)
	for name, content := range map[string]string{"a/b/c": "deep", "a/exec": "#!", "big": big, "caf\xe9": "latin", "empty": ""} {
		if err := WriteFile(filepath.Join(source, name), strings.NewReader(content), 0, 0o750, Owner{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"rel": "a/b", "dangling": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	var archive bytes.Buffer
	skipped, err := Pack(source, &archive)
	if err != nil || len(skipped) != 0 {
		t.Fatal(skipped, err)
	}
	if err := Extract(target, &archive, Owner{}); err != nil {
		t.Fatal(err)
	}
	if got, want := tree(t, target), tree(t, source); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if read1(t, filepath.Join(target, "big")) != big {
		t.Error("the content differs")
	}
}

func tree(t *testing.T, folder string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(folder, path)
		info, err := d.Info()
		if err != nil || name == "." {
			return err
		}
		to, _ := os.Readlink(path)
		lines = append(lines, name+" "+info.Mode().String()+" "+to)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestPackLeavesOutAndReportsWhatATarCannotCarry(t *testing.T) {
	folder := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(folder, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := unix.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kept"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	deep := folder
	for range maxDepth + 2 {
		deep = filepath.Join(deep, "d")
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	skipped, err := Pack(folder, &archive)
	if err != nil {
		t.Fatal(err)
	}
	report := strings.Join(skipped, "\n")
	for _, want := range []string{"socket: is neither", "pipe: is neither", "lies deeper than 200 levels"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in %q", want, report)
		}
	}
	if !slices.Contains(archiveNames(t, &archive), "kept") {
		t.Error("the file is missing")
	}
}

func archiveNames(t *testing.T, r io.Reader) []string {
	t.Helper()
	var names []string
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

func TestPackNeverFollowsLinks(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("solution"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"file": filepath.Join(outside, "secret"), "folder": outside} {
		if err := os.Symlink(to, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	var archive bytes.Buffer
	if _, err := Pack(folder, &archive); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(archive.Bytes(), []byte("solution")) {
		t.Error("what a link leads to was packed")
	}
}

func TestPackOfAFileThatShrinksIsAnError(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "log")
	if err := os.WriteFile(path, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	truncate := writerFunc(func(p []byte) (int, error) {
		return len(p), os.Truncate(path, 0)
	})
	if _, err := Pack(folder, truncate); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
}

func TestPackOfAFileThatGrowsTakesWhatWasThere(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "log")
	if err := os.WriteFile(path, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var archive bytes.Buffer
	grow := writerFunc(func(p []byte) (int, error) {
		if _, err := log.Write([]byte("more")); err != nil {
			return 0, err
		}
		return archive.Write(p)
	})
	if _, err := Pack(folder, grow); err != nil {
		t.Fatal(err)
	}
	target := t.TempDir()
	if err := Extract(target, &archive, Owner{}); err != nil || len(read1(t, filepath.Join(target, "log"))) != 2<<20 {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestPackOfWhatIsNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, missing := range []string{path, path + "x"} {
		if _, err := Pack(missing, io.Discard); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v", missing, err)
		}
	}
}
