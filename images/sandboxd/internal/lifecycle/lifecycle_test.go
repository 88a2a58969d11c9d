package lifecycle

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type ending struct {
	code   int
	reason string
}

func listen(t *testing.T, uid uint32, lostAfter, neverAfter time.Duration) (string, *RunnerListener, chan ending) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ended := make(chan ending, 10)
	listener, err := ListenForRunner(path, Runner{
		UID:           uid,
		LostAfter:     lostAfter,
		NeverAfter:    neverAfter,
		Lost:          func(code int, reason string) { ended <- ending{code, reason} },
		SameNamespace: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return path, listener, ended
}

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	connection, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func TestOnlyTheRunnerIsServed(t *testing.T) {
	us := uint32(os.Geteuid())
	path, listener, _ := listen(t, us+1, time.Hour, 0)
	go func() {
		if connection, err := listener.Accept(); err == nil {
			_, _ = connection.Write([]byte("served"))
		}
	}()
	if got, err := io.ReadAll(dial(t, path)); len(got) != 0 || (err != nil && !errors.Is(err, syscall.ECONNRESET)) {
		t.Errorf("uid %d got %q, %v though only %d is served", us, got, err, us+1)
	}
}

func TestAProcessOfTheContainerIsNotTheRunner(t *testing.T) {
	path, listener, _ := listen(t, uint32(os.Geteuid()), time.Hour, 0)
	listener.runner.SameNamespace = false
	go func() {
		if connection, err := listener.Accept(); err == nil {
			_, _ = connection.Write([]byte("served"))
		}
	}()
	if got, err := io.ReadAll(dial(t, path)); len(got) != 0 || (err != nil && !errors.Is(err, syscall.ECONNRESET)) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestEverybodyCanReachTheSocket(t *testing.T) {
	path, _, _ := listen(t, 0, time.Hour, 0)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v: the runner is another user than sandboxd", info.Mode(), err)
	}
}

func TestALeftoverSocketIsReplacedAFileIsNot(t *testing.T) {
	path, listener, _ := listen(t, 0, time.Hour, 0)
	listener.Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	again, err := ListenForRunner(path, Runner{LostAfter: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenForRunner(file, Runner{LostAfter: time.Hour}); err == nil {
		t.Error("a file was replaced")
	}
}

func TestLosingTheLastConnectionEnds(t *testing.T) {
	path, listener, ended := listen(t, uint32(os.Geteuid()), 50*time.Millisecond, 0)
	accept := func() (net.Conn, net.Conn) {
		theirs := dial(t, path)
		ours, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return theirs, ours
	}
	_, first := accept()
	_, second := accept()
	first.Close()
	first.Close()
	// A second close of the same connection must not count for the other.
	time.Sleep(200 * time.Millisecond)
	select {
	case got := <-ended:
		t.Fatalf("ended with a connection open: %+v", got)
	default:
	}
	second.Close()
	if got := <-ended; got.code != ExitRunnerLost {
		t.Errorf("got %+v", got)
	}
}

func TestARunnerThatComesBackInTimeIsNotLost(t *testing.T) {
	path, listener, ended := listen(t, uint32(os.Geteuid()), 300*time.Millisecond, 0)
	dial(t, path)
	first, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	dial(t, path)
	if _, err := listener.Accept(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(600 * time.Millisecond)
	select {
	case got := <-ended:
		t.Errorf("ended though the runner is back: %+v", got)
	default:
	}
}

func TestWithoutAnyRunnerItEndsAfterTheStartupTimeout(t *testing.T) {
	_, _, ended := listen(t, 0, time.Hour, 20*time.Millisecond)
	if got := <-ended; got.code != ExitNoRunner {
		t.Errorf("got %+v", got)
	}
}

func TestSIGTERMEndsShortlyBeforeTheGracePeriodDoes(t *testing.T) {
	ended := make(chan time.Time, 1)
	OnTermination(400*time.Millisecond, 200*time.Millisecond, func(code int, _ string) {
		if code != ExitTerminated {
			t.Errorf("code %d", code)
		}
		ended <- time.Now()
	})
	sent := time.Now()
	if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if after := (<-ended).Sub(sent); after < 200*time.Millisecond {
		t.Errorf("ended %v after SIGTERM", after)
	}
}
