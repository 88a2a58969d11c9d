package process

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const passwd = `root:x:0:0:root:/root:/bin/bash
# a comment: and: some: colons
broken
agent:x:1000:1000::/home/agent:/bin/sh
homeless:x:1001:1001:::
1000x:x:1002:1002::/x:/bin/sh
+nis::::::
`

const groups = `root:x:0:
agent:x:1000:
docker:x:999:agent,other
wheel:x:10:other,agent
bad:x:many:agent
`

func accountFiles(t testing.TB, passwd, groups string) (string, string) {
	folder := t.TempDir()
	for name, text := range map[string]string{"passwd": passwd, "group": groups} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "passwd"), filepath.Join(folder, "group")
}

func TestLookupUser(t *testing.T) {
	passwdPath, groupPath := accountFiles(t, passwd, groups)
	cases := []struct {
		spec string
		want Identity
	}{
		{"", Identity{0, 0, []uint32{0}, "/root", true}},
		{"root", Identity{0, 0, []uint32{0}, "/root", true}},
		{"agent", Identity{1000, 1000, []uint32{1000, 999, 10}, "/home/agent", false}},
		{"1000", Identity{1000, 1000, []uint32{1000, 999, 10}, "/home/agent", false}},
		{"agent:wheel", Identity{1000, 10, []uint32{10}, "/home/agent", false}},
		{"agent:12", Identity{1000, 12, []uint32{12}, "/home/agent", false}},
		{"homeless", Identity{1001, 1001, []uint32{1001}, "/", false}},
		{"4711", Identity{4711, 0, []uint32{0}, "/", false}},
	}
	for _, c := range cases {
		got, err := lookupUser(c.spec, passwdPath, groupPath, 0, 0)
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%q: got %+v, %v, want %+v", c.spec, got, err, c.want)
		}
	}
	for _, spec := range []string{"ghost", "-1", "4294967296", "agent:ghosts", ":", "+nis"} {
		if got, err := lookupUser(spec, passwdPath, groupPath, 0, 0); err == nil {
			t.Errorf("%q: got %+v, want an error", spec, got)
		}
	}
}

func TestRootNeedsNoAccountFiles(t *testing.T) {
	for _, spec := range []string{"", "root", "0"} {
		got, err := lookupUser(spec, "/no/passwd", "/no/group", 0, 0)
		if err != nil || got.UID != 0 || !got.own {
			t.Errorf("%q: got %+v, %v", spec, got, err)
		}
	}
}

func TestOnlyRootBecomesAnotherUser(t *testing.T) {
	passwdPath, groupPath := accountFiles(t, passwd, groups)
	if _, err := lookupUser("agent", passwdPath, groupPath, 1000, 1000); err != nil {
		t.Errorf("itself: %v", err)
	}
	_, err := lookupUser("root", passwdPath, groupPath, 1000, 1000)
	if err == nil || !strings.Contains(err.Error(), "sandboxd runs as uid 1000 here") {
		t.Errorf("got %v", err)
	}
}

// Whatever an agent writes into the account files, nobody becomes root by it
// but who asks for it.
func FuzzLookupUser(f *testing.F) {
	f.Add("agent", passwd, groups)
	f.Add("1000:10", passwd, groups)
	f.Add("a:b:c", "a:::::\n", ":::\n")
	f.Add("\xff", strings.Repeat("x", 1<<16), "")
	f.Fuzz(func(t *testing.T, spec, passwd, groups string) {
		passwdPath, groupPath := accountFiles(t, passwd, groups)
		identity, err := lookupUser(spec, passwdPath, groupPath, 0, 0)
		if err == nil && (len(identity.Groups) == 0 || identity.Groups[0] != identity.GID) {
			t.Errorf("%q: %+v has a primary group that it is not in", spec, identity)
		}
	})
}
