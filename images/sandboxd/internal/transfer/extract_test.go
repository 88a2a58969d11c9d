package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type entry struct {
	tar.Header
	content string
}

func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if e.Mode == 0 {
			e.Mode = 0o644
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name}, content}
}

func link(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

func hardLink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

func read1(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func namesIn(t testing.TB, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestExtractKeepsContentModeTimeAndLinks(t *testing.T) {
	target := filepath.Join(t.TempDir(), "made", "here")
	modified := time.Unix(1_600_000_000, 0)
	archive := archiveOf(t,
		entry{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700}, ""},
		entry{tar.Header{Typeflag: tar.TypeReg, Name: "deep/down/run.sh", Mode: 0o4755, ModTime: modified}, "#!/bin/sh\n"},
		link("deep/link", "down/run.sh"),
		hardLink("again.sh", "deep/down/run.sh"),
		entry{tar.Header{Typeflag: tar.TypeDir, Name: "empty/", Mode: 0o750}, ""},
		file("caf\xe9", "not UTF-8"),
	)
	if err := Extract(target, bytes.NewReader(archive), Owner{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(target, "deep/down/run.sh"))
	if err != nil || info.Mode() != 0o755 || !info.ModTime().Equal(modified) {
		t.Errorf("run.sh: %v, %v, %v", info.Mode(), info.ModTime(), err)
	}
	if got := read1(t, filepath.Join(target, "deep/link")); got != "#!/bin/sh\n" {
		t.Errorf("through the link: %q", got)
	}
	again, err := os.Stat(filepath.Join(target, "again.sh"))
	if err != nil || !os.SameFile(info, again) {
		t.Errorf("the hard link is another file: %v", err)
	}
	if info, err := os.Stat(filepath.Join(target, "empty")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("empty: %v, %v", info, err)
	}
	if got := read1(t, filepath.Join(target, "caf\xe9")); got != "not UTF-8" {
		t.Errorf("got %q", got)
	}
}

func TestExtractReplacesWhatIsThere(t *testing.T) {
	target, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(target, "test.sh")); err != nil {
		t.Fatal(err)
	}
	archive := archiveOf(t, file("test.sh", "ours"), link("l", "a"), link("l", "test.sh"), file("l", "now a file"))
	if err := Extract(target, bytes.NewReader(archive), Owner{}); err != nil {
		t.Fatal(err)
	}
	if got := read1(t, outside); got != "untouched" {
		t.Errorf("wrote through a link: %q", got)
	}
	if read1(t, filepath.Join(target, "test.sh")) != "ours" || read1(t, filepath.Join(target, "l")) != "now a file" {
		t.Error("what was there is not replaced")
	}
}

func TestExtractRefusesWhatLeavesTheDirectory(t *testing.T) {
	cases := []struct {
		want    string
		entries []entry
	}{
		{`entry "../evil": its name leaves the directory`, []entry{file("../evil", "x")}},
		{`entry "/evil": its name leaves the directory`, []entry{file("/evil", "x")}},
		{`entry "a/../../evil": its name leaves the directory`, []entry{file("a/../../evil", "x")}},
		{"is a symbolic link to /etc, which leaves", []entry{link("etc", "/etc")}},
		{"is a symbolic link to ../.., which leaves", []entry{link("a/up", "../..")}},
		{"is a hard link to ../outside, which leaves", []entry{hardLink("h", "../outside")}},
		{"is a hard link to out, which is not a file", []entry{link("out", "gone"), hardLink("h", "out")}},
		{`entry "planted/evil": openat planted: path escapes`, []entry{file("planted/evil", "x")}},
		{`entry "planted/sub/": mkdirat planted/sub: path escapes`, []entry{{tar.Header{Typeflag: tar.TypeDir, Name: "planted/sub/"}, ""}}},
		{`entry "h": openat planted: path escapes`, []entry{hardLink("h", "planted/secret")}},
		{"is of type '6', which is not taken", []entry{{tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, ""}}},
		{"is of type '3', which is not taken", []entry{{tar.Header{Typeflag: tar.TypeChar, Name: "null"}, ""}}},
		{"is a file in the place of the directory itself", []entry{file("./.", "x")}},
		{`entry "folder": is a directory`, []entry{file("folder/x", "x"), file("folder", "x")}},
	}
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			base := t.TempDir()
			target, outside := filepath.Join(base, "target"), filepath.Join(base, "outside")
			for _, folder := range []string{target, outside} {
				if err := os.Mkdir(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(target, "planted")); err != nil {
				t.Fatal(err)
			}
			err := Extract(target, bytes.NewReader(archiveOf(t, c.entries...)), Owner{})
			var refused *EntryError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if got := namesIn(t, outside); len(got) != 1 {
				t.Errorf("outside: %v", got)
			}
			if got := namesIn(t, base); len(got) != 2 {
				t.Errorf("beside: %v", got)
			}
		})
	}
}

func TestExtractOfWhatIsNoArchive(t *testing.T) {
	var format *FormatError
	err := Extract(t.TempDir(), strings.NewReader(strings.Repeat("no tar ", 1000)), Owner{})
	if !errors.As(err, &format) {
		t.Errorf("got %v", err)
	}
	whole := archiveOf(t, file("a", strings.Repeat("x", 5000)))
	target := t.TempDir()
	if err := Extract(target, bytes.NewReader(whole[:2000]), Owner{}); err == nil {
		t.Error("half an archive is no error")
	}
	if got := namesIn(t, target); len(got) != 0 {
		t.Errorf("half a file is there: %v", got)
	}
}

func TestExtractReportsTheStreamsOwnError(t *testing.T) {
	broken := errors.New("the connection broke")
	whole := archiveOf(t, file("a", strings.Repeat("x", 5000)))
	for _, length := range []int{0, 100, 512, 2000, len(whole)} {
		stream := io.MultiReader(bytes.NewReader(whole[:length]), failing{broken})
		if err := Extract(t.TempDir(), stream, Owner{}); !errors.Is(err, broken) {
			t.Errorf("cut after %d bytes: got %v", length, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestExtractGivesAllToTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	target := filepath.Join(t.TempDir(), "new")
	archive := archiveOf(t, file("a/b", "x"), link("l", "a"), entry{tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, ""})
	if err := Extract(target, bytes.NewReader(archive), Owner{Set: true, UID: 54321, GID: 54322}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if uid, gid := ownerIDs(t, path); uid != 54321 || gid != 54322 {
			t.Errorf("%s belongs to %d:%d", path, uid, gid)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// FuzzExtract feeds arbitrary archives to a folder that holds a link out of it.
// Whatever they say, nothing outside changes.
func FuzzExtract(f *testing.F) {
	f.Add(archiveOf(f, file("a/b", "content"), link("l", "a/b"), hardLink("h", "a/b")))
	f.Add(archiveOf(f, file("../evil", "x")))
	f.Add(archiveOf(f, file("planted/evil", "x")))
	f.Add(archiveOf(f, link("in", "planted"), file("in/evil", "x")))
	f.Add(archiveOf(f, link("a", "b"), link("b", "a"), file("a/x", "x")))
	f.Add(archiveOf(f, hardLink("h", "planted/secret"), file("h", "x")))
	f.Add([]byte(strings.Repeat("\x00", 1024)))
	f.Fuzz(func(t *testing.T, archive []byte) {
		base := t.TempDir()
		target, outside := filepath.Join(base, "target"), filepath.Join(base, "outside")
		for _, folder := range []string{target, outside} {
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(target, "planted")); err != nil {
			t.Fatal(err)
		}
		_ = Extract(target, bytes.NewReader(archive), Owner{})
		secret, err := os.ReadFile(filepath.Join(outside, "secret"))
		if err != nil || string(secret) != "kept" || len(namesIn(t, outside)) != 1 || len(namesIn(t, base)) != 2 {
			t.Fatalf("something outside has changed: %q, %v", secret, err)
		}
		info, err := os.Stat(filepath.Join(outside, "secret"))
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("its mode has changed: %v, %v", info, err)
		}
	})
}
