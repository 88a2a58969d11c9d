package memory

import (
	"os"
	"path/filepath"
	"testing"
)

func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var version2 = map[string]string{
	"memory.current": "900\n",
	"memory.max":     "1000\n",
	"memory.stat":    "anon 500\nfile 400\ninactive_file 100\nactive_file 250\n",
	"memory.events":  "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\n",
}

var version1 = map[string]string{
	"memory/memory.usage_in_bytes": "900\n",
	"memory/memory.stat": "inactive_file 1\nactive_file 1\nhierarchical_memory_limit 1000\n" +
		"total_inactive_file 100\ntotal_active_file 250\n",
	"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}

func TestBothVersionsOfCgroups(t *testing.T) {
	for name, files := range map[string]map[string]string{"v1": version1, "v2": version2} {
		root := t.TempDir()
		writeFiles(t, root, files)
		cgroup, ok := FindCgroup(root)
		if !ok {
			t.Fatalf("%s: not found", name)
		}
		state, err := cgroup.Read()
		if err != nil || state != (State{Limit: 1000, Used: 550}) {
			t.Errorf("%s: got %+v, %v", name, state, err)
		}
		if got := cgroup.OOMKills(); got != 3 {
			t.Errorf("%s: %d kills by the kernel, want 3", name, got)
		}
	}
}

func TestNoLimitIsNone(t *testing.T) {
	for name, change := range map[string]map[string]string{
		"v2": {"memory.current": "1", "memory.stat": "", "memory.max": "max\n"},
		"v1": {"memory/memory.usage_in_bytes": "1", "memory/memory.stat": "hierarchical_memory_limit 9223372036854771712\n"},
	} {
		root := t.TempDir()
		writeFiles(t, root, change)
		cgroup, ok := FindCgroup(root)
		if !ok {
			t.Fatalf("%s: not found", name)
		}
		if state, err := cgroup.Read(); err != nil || state.Limit != 0 {
			t.Errorf("%s: got %+v, %v", name, state, err)
		}
	}
}

func TestNoController(t *testing.T) {
	if _, ok := FindCgroup(t.TempDir()); ok {
		t.Error("found one in an empty folder")
	}
}
