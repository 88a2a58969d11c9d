package memory

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"assay.dev/sandboxd/internal/process"
)

const mib = 1 << 20

type source struct {
	state State
	err   error
}

func (s *source) Read() (State, error) { return s.state, s.err }

// processes has one process; killing it gives its memory back.
type processes struct {
	source *source
	usage  process.Usage
	killed []int
	err    error
}

func (p *processes) Largest() (process.Usage, bool) { return p.usage, p.usage.Bytes > 0 }

func (p *processes) KillForMemory(pid int) (string, error) {
	if p.err != nil {
		return "", p.err
	}
	p.killed = append(p.killed, pid)
	p.source.state.Used -= p.usage.Bytes
	return "call-1", nil
}

// A pid that is surely gone: the guard waits for the victim to disappear.
func gonePID(t *testing.T) int {
	t.Helper()
	command := exec.Command("true")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid
}

func TestGuardKillsTheLargestAndRecordsIt(t *testing.T) {
	memory := &source{state: State{Limit: 1024 * mib, Used: 1000 * mib}}
	victims := &processes{source: memory, usage: process.Usage{PID: gonePID(t), Command: "hog", Bytes: 900 * mib}}
	guard := NewGuard(memory, victims, 0)
	guard.look(context.Background())
	guard.look(context.Background())
	if len(victims.killed) != 1 {
		t.Fatalf("killed %v, want one process once", victims.killed)
	}
	kills := guard.Kills()
	if len(kills) != 1 || kills[0].Victim.Command != "hog" || kills[0].CallID != "call-1" ||
		kills[0].State != (State{Limit: 1024 * mib, Used: 1000 * mib}) {
		t.Errorf("recorded %+v", kills)
	}
}

func TestGuardSparesWhoIsBelowTheMargin(t *testing.T) {
	for _, c := range []struct {
		margin uint64
		state  State
		dies   bool
	}{
		{0, State{Limit: 1024 * mib, Used: 991 * mib}, false}, // 1/32 is 32 MiB
		{0, State{Limit: 1024 * mib, Used: 992 * mib}, true},
		{0, State{Limit: 64 * mib, Used: 55 * mib}, false}, // at least 8 MiB
		{0, State{Limit: 64 * mib, Used: 56 * mib}, true},
		{0, State{Limit: 64 << 30, Used: 64<<30 - 65*mib}, false}, // at most 64 MiB
		{0, State{Limit: 64 << 30, Used: 64<<30 - 64*mib}, true},
		{100 * mib, State{Limit: 1024 * mib, Used: 923 * mib}, false},
		{100 * mib, State{Limit: 1024 * mib, Used: 924 * mib}, true},
		{100 * mib, State{Limit: 50 * mib, Used: 2 * mib}, true}, // a margin above the limit
		{0, State{Limit: 0, Used: 1 << 50}, false},               // no limit
	} {
		memory := &source{state: c.state}
		victims := &processes{source: memory, usage: process.Usage{PID: gonePID(t), Bytes: 2 * mib}}
		NewGuard(memory, victims, c.margin).look(context.Background())
		if died := len(victims.killed) > 0; died != c.dies {
			t.Errorf("margin %d, %+v: killed %v", c.margin, c.state, victims.killed)
		}
	}
}

func TestGuardKillsNobodyInVain(t *testing.T) {
	full := State{Limit: 1024 * mib, Used: 1024 * mib}
	for name, victims := range map[string]*processes{
		"nobody there":              {},
		"files fill the memory":     {usage: process.Usage{PID: 2, Bytes: mib / 2}},
		"victim gone before killed": {usage: process.Usage{PID: 2, Bytes: 2 * mib}, err: errors.New("no such process")},
	} {
		memory := &source{state: full}
		victims.source = memory
		guard := NewGuard(memory, victims, 0)
		guard.look(context.Background())
		if len(victims.killed) != 0 || len(guard.Kills()) != 0 {
			t.Errorf("%s: killed %v, recorded %v", name, victims.killed, guard.Kills())
		}
	}
}

func TestGuardLooksMoreOftenNearTheLimit(t *testing.T) {
	last := time.Duration(1 << 62)
	for _, left := range []uint64{8 << 30, 1 << 30, 200 * mib, 10 * mib, 1} {
		pause := pauseFor(left)
		if pause > last || pause < shortestPause || pause > longestPause {
			t.Errorf("%d bytes left: pause %v after %v", left, pause, last)
		}
		last = pause
	}
	if last != shortestPause {
		t.Errorf("at the limit: pause %v", last)
	}
}

func TestGuardKeepsTheNewestKills(t *testing.T) {
	guard := NewGuard(nil, nil, 0)
	for pid := range keptKills + 10 {
		guard.record(Kill{Victim: process.Usage{PID: pid}})
	}
	kills := guard.Kills()
	if len(kills) != keptKills || kills[0].Victim.PID != 10 || kills[keptKills-1].Victim.PID != keptKills+9 {
		t.Errorf("kept %d, from %d", len(kills), kills[0].Victim.PID)
	}
}

func TestGuardOutlivesAnUnreadableCgroup(t *testing.T) {
	memory := &source{err: errors.New("no such file")}
	if pause := NewGuard(memory, &processes{}, 0).look(context.Background()); pause != longestPause {
		t.Errorf("pause %v", pause)
	}
}
