package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// escape starts one child in a session of its own and one that forked twice,
// each of which writes its pid.
func escape(t *testing.T) (script string, pids func() []int) {
	folder := t.TempDir()
	script = fmt.Sprintf(`cd %s
		setsid sh -c 'echo $$ > session; exec sleep 1000' &
		( setsid sh -c 'sh -c "echo \$\$ > twice; exec sleep 1000" & exit 0' & )
		while ! [ -s session ] || ! [ -s twice ]; do sleep 0.01; done
		echo ready
	`, folder)
	return script, func() []int {
		return []int{readPID(t, filepath.Join(folder, "session")), readPID(t, filepath.Join(folder, "twice"))}
	}
}

func TestTimeoutKillsAllThatTheCommandStarted(t *testing.T) {
	script, pids := escape(t)
	exit, r := mustRun(t, Spec{Script: script + "exec sleep 1000", Timeout: 2 * time.Second})
	if !exit.TimedOut || exit.Status.Signal() != unix.SIGKILL {
		t.Errorf("exit %+v", exit)
	}
	if r.text(Stdout) != "ready\n" {
		t.Errorf("what came before the timeout is lost: %q", r.text(Stdout))
	}
	for _, pid := range pids() {
		if isAlive(pid) {
			t.Errorf("process %d outlived the timeout", pid)
		}
	}
}

func TestCancelKillsAllThatTheCommandStarted(t *testing.T) {
	script, pids := escape(t)
	ctx, cancel := context.WithCancel(t.Context())
	manager, err := sharedManager()
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	r.onData = cancel
	_, err = manager.Run(ctx, &Spec{Script: script + "exec sleep 1000"}, r)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, pid := range pids() {
		if isAlive(pid) {
			t.Errorf("process %d outlived the cancellation", pid)
		}
	}
}

func TestChildrenOutliveANormalEnd(t *testing.T) {
	script, pids := escape(t)
	mustRun(t, Spec{Script: "exec > /dev/null;" + script})
	for _, pid := range pids() {
		if !isAlive(pid) {
			t.Errorf("process %d died with its call", pid)
		}
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func TestAForkBombDiesWithItsCall(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give the bomb a user of its own and thereby a limit")
	}
	const uid = 54321
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, _, err := run(t, ctx, Spec{
			Args: []string{"bash", "-c", "ulimit -u 150; bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1000"},
			User: strconv.Itoa(uid),
		})
		done <- err
	}()
	eventually(t, "the bomb goes off", func() bool { return countOf(uid) > 100 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := countOf(uid); left != 0 {
		t.Errorf("%d processes are left", left)
	}
}

func countOf(uid int) int {
	table, _ := ReadTable()
	count := 0
	for pid := range table {
		if strings.HasPrefix(readStatus(pid)["Uid"], strconv.Itoa(uid)+"\t") {
			count++
		}
	}
	return count
}
