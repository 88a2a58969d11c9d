package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is its own supervisor, as sandboxd is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		if err := Supervise(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var sharedManager = sync.OnceValues(func() (*Manager, error) {
	return NewManager(NewReaper(), []string{"PATH=" + os.Getenv("PATH"), "FROM_CONTAINER=yes"})
})

type recorder struct {
	mu      sync.Mutex
	out     [2]bytes.Buffer
	started chan int
	onData  func()
}

func newRecorder() *recorder { return &recorder{started: make(chan int, 1)} }

func (r *recorder) Started(pid int) error {
	r.started <- pid
	return nil
}

func (r *recorder) Output(stream Stream, data []byte) error {
	if r.onData != nil {
		r.onData()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out[stream].Write(data)
	return nil
}

func (r *recorder) text(stream Stream) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out[stream].String()
}

func run(t *testing.T, ctx context.Context, spec Spec) (Exit, *recorder, error) {
	t.Helper()
	manager, err := sharedManager()
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	exit, err := manager.Run(ctx, &spec, r)
	return exit, r, err
}

func mustRun(t *testing.T, spec Spec) (Exit, *recorder) {
	t.Helper()
	exit, r, err := run(t, t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return exit, r
}

// eventually fails the test unless the condition comes true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func isAlive(pid int) bool {
	table, err := ReadTable()
	_, there := table[pid]
	return err == nil && there && ResidentBytes(pid) > 0
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, path+" holds a pid", func() bool {
		text, _ := os.ReadFile(path)
		number, err := strconv.Atoi(strings.TrimSpace(string(text)))
		pid = number
		return err == nil && strings.HasSuffix(string(text), "\n")
	})
	return pid
}

func TestStreamsAndExitCodeAreKeptApart(t *testing.T) {
	exit, r := mustRun(t, Spec{Script: "echo out; echo err >&2; exit 7"})
	if exit.Status.ExitStatus() != 7 || r.text(Stdout) != "out\n" || r.text(Stderr) != "err\n" {
		t.Errorf("status %v, stdout %q, stderr %q", exit.Status, r.text(Stdout), r.text(Stderr))
	}
}

func TestOutputThatIsNotUTF8PassesUnchanged(t *testing.T) {
	_, r := mustRun(t, Spec{Script: `printf '\377\376\000\300x'`})
	if got := r.text(Stdout); got != "\xff\xfe\x00\xc0x" {
		t.Errorf("got %q", got)
	}
}

func TestASignalledCommandReportsItsSignal(t *testing.T) {
	exit, _ := mustRun(t, Spec{Script: "kill -TERM $$"})
	if !exit.Status.Signaled() || exit.Status.Signal() != unix.SIGTERM {
		t.Errorf("status %v", exit.Status)
	}
}

func TestEnvironmentOfContainerUserAndCall(t *testing.T) {
	_, r := mustRun(t, Spec{
		Args: []string{"env"},
		Env:  map[string]string{"ADDED": "a=b c"},
		User: "nobody",
		Cwd:  "/tmp",
	})
	for _, want := range []string{"FROM_CONTAINER=yes\n", "ADDED=a=b c\n", "HOME=/nonexistent\n"} {
		if !strings.Contains(r.text(Stdout), want) {
			t.Errorf("no %q in %q", want, r.text(Stdout))
		}
	}
	_, r = mustRun(t, Spec{Script: "pwd; id -u; umask", User: "nobody", Cwd: "/tmp"})
	if got := r.text(Stdout); !strings.HasPrefix(got, "/tmp\n65534\n") {
		t.Errorf("got %q", got)
	}
}

func TestTheCommandInheritsNothingButItsThreeFiles(t *testing.T) {
	// The last is the program's own, for reading the folder.
	_, r := mustRun(t, Spec{Args: []string{"ls", "/proc/self/fd"}})
	if got := r.text(Stdout); got != "0\n1\n2\n3\n" {
		t.Errorf("open files: %q", got)
	}
	_, r = mustRun(t, Spec{Args: []string{"grep", "SigIgn", "/proc/self/status"}})
	if got := strings.Fields(r.text(Stdout)); got[1] != "0000000000000000" {
		t.Errorf("ignored signals: %v", got)
	}
}

func TestRequestsThatCannotWork(t *testing.T) {
	cases := []struct {
		spec Spec
		want string
	}{
		{Spec{Args: []string{"true"}, User: "ghost"}, `user: "ghost" is neither in this container's /etc/passwd nor a number`},
		{Spec{Args: []string{"true"}, User: "0:ghosts"}, `user: group "ghosts" is neither`},
		{Spec{Args: []string{"true"}, Cwd: "/no/such"}, "cwd: /no/such does not exist in this container"},
		{Spec{Args: []string{"true"}, Cwd: "tmp"}, `cwd: "tmp" is not absolute`},
		{Spec{Args: []string{"true"}, Cwd: "/etc/passwd"}, "cwd: /etc/passwd is not a directory"},
		{Spec{Args: []string{"no-such-program"}}, "command: no program no-such-program in PATH"},
		{Spec{Args: []string{"/no/such/program"}}, "/no/such/program: no such file or directory"},
		{Spec{Args: []string{"/etc/passwd"}}, "/etc/passwd: permission denied"},
		{Spec{Args: []string{""}}, "the program's name is empty"},
		{Spec{Args: []string{"true"}, Env: map[string]string{"A=B": ""}}, `env: "A=B" is not a variable name`},
		{Spec{Args: []string{"echo", "a\x00b"}}, "an argument has a NUL byte"},
		{Spec{Script: strings.Repeat("#", 1<<20)}, "an argument has 1048576 bytes, the kernel takes fewer than 131072"},
	}
	for _, c := range cases {
		_, _, err := run(t, t.Context(), c.spec)
		var refused *RequestError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+.60v: got %v, want %q", c.spec, err, c.want)
		}
	}
}

func TestAFileThatIsNoProgramFailsWithTheKernelsReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(path, []byte("no magic\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, _, err := run(t, t.Context(), Spec{Args: []string{path}})
	if err == nil || !strings.Contains(err.Error(), "exec format error") {
		t.Errorf("got %v", err)
	}
}

func TestABackgroundChildThatHoldsStdoutDelaysNoMoreThanTheDrain(t *testing.T) {
	folder := t.TempDir()
	exit, r := mustRun(t, Spec{
		Script: "sh -c 'echo $$ > pid; while :; do echo more || exit 9; sleep 0.05; done' & while ! [ -s pid ]; do :; done; exit 3",
		Cwd:    folder,
	})
	if exit.Status.ExitStatus() != 3 || !strings.HasPrefix(r.text(Stdout), "more\n") {
		t.Errorf("exit %+v, stdout %q", exit, r.text(Stdout))
	}
	pid := readPID(t, filepath.Join(folder, "pid"))
	defer unix.Kill(pid, unix.SIGKILL)
	// It goes on writing into a pipe that nobody wants: that must not kill it.
	before := voluntarySwitches(t, pid)
	eventually(t, "the child goes on", func() bool { return voluntarySwitches(t, pid) > before+5 })
}

func voluntarySwitches(t *testing.T, pid int) int {
	t.Helper()
	status := readStatus(pid)
	switches, err := strconv.Atoi(status["voluntary_ctxt_switches"])
	if err != nil {
		t.Fatalf("process %d is gone: %v", pid, status)
	}
	return switches
}

func TestASlowReaderLosesNothing(t *testing.T) {
	manager, err := sharedManager()
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	slept := false
	// Reads nothing until the drain's deadline is long over.
	r.onData = func() {
		if !slept {
			slept = true
			time.Sleep(drainFor + 500*time.Millisecond)
		}
	}
	script := "head -c 65536 /dev/zero; head -c 65000 /dev/zero | tr '\\0' x"
	if _, err := manager.Run(t.Context(), &Spec{Script: script}, r); err != nil {
		t.Fatal(err)
	}
	if got := len(r.text(Stdout)); got != 65536+65000 {
		t.Errorf("%d bytes came of %d", got, 65536+65000)
	}
}

func TestAFailingReaderEndsTheCommandsOutputNotTheServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, _, err := run(t, ctx, Spec{Args: []string{"yes"}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestSignalReachesTheProcessGroup(t *testing.T) {
	manager, err := sharedManager()
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	var once sync.Once
	r.onData = func() { once.Do(func() { go manager.Signal("interruptible", unix.SIGINT) }) }
	exit, err := manager.Run(t.Context(), &Spec{
		ID:     "interruptible",
		Script: "trap 'exit 42' INT; echo ready; while :; do sleep 0.05; done",
	}, r)
	if err != nil || exit.Status.ExitStatus() != 42 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if manager.Signal("interruptible", unix.SIGINT) {
		t.Error("a call that has ended took a signal")
	}
}

func TestDeathForWantOfMemoryIsTheCalls(t *testing.T) {
	manager, err := sharedManager()
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	r.onData = func() {
		var child int
		_, _ = fmt.Sscan(r.text(Stdout), &child)
	}
	go func() {
		eventually(t, "the child's pid", func() bool { return strings.HasSuffix(r.text(Stdout), "\n") })
		child, _ := strconv.Atoi(strings.TrimSpace(r.text(Stdout)))
		if id, err := manager.KillForMemory(child); id != "hungry" || err != nil {
			t.Errorf("killed a process of call %q: %v", id, err)
		}
	}()
	exit, err := manager.Run(t.Context(), &Spec{ID: "hungry", Script: "sleep 1000 & echo $!; wait $!; exit 5"}, r)
	if err != nil || !exit.OOMKilled || exit.Status.ExitStatus() != 5 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

func TestEverythingIsOnlyKilledAsPID1(t *testing.T) {
	manager, err := sharedManager()
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.killAll(); err == nil || !strings.Contains(err.Error(), "not PID 1") {
		t.Errorf("got %v", err)
	}
}
