package memory

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"assay.dev/sandboxd/internal/process"
)

// Processes are what the guard can kill.
type Processes interface {
	// Largest is the process whose death would free the most memory.
	Largest() (process.Usage, bool)
	// KillForMemory kills it and returns the ID of its call, empty if none.
	KillForMemory(pid int) (string, error)
}

// Kill is one death by the guard.
type Kill struct {
	At     time.Time
	Victim process.Usage
	State  State
	CallID string
}

// Source tells the state of the memory.
type Source interface{ Read() (State, error) }

// Guard kills the largest process whenever less than the margin is left.
type Guard struct {
	source    Source
	processes Processes
	// margin is 0 for a share of the limit.
	margin uint64

	mu    sync.Mutex
	kills []Kill
}

const (
	keptKills = 64
	// The pause between two looks is what the fastest writer would need to
	// fill what is left: cheap far from the limit, quick near to it.
	fastestBytesPerSecond = 4 << 30
	shortestPause         = 10 * time.Millisecond
	longestPause          = 500 * time.Millisecond
	// Where even the largest process holds less, it is not processes that fill
	// the memory but files in it: killing would help nobody.
	worthKilling = 1 << 20
	// A killed process gives its memory back within this, or another dies.
	dyingTime = 250 * time.Millisecond
)

// NewGuard makes a guard; margin 0 means a thirty-second part of the limit, at
// least 8 and at most 64 MiB.
func NewGuard(source Source, processes Processes, margin uint64) *Guard {
	return &Guard{source: source, processes: processes, margin: margin}
}

// Run guards until ctx is done.
func (g *Guard) Run(ctx context.Context) {
	pause := shortestPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = g.look(ctx)
	}
}

// look kills if it must, and returns how long to wait for the next look.
func (g *Guard) look(ctx context.Context) time.Duration {
	state, err := g.source.Read()
	if err != nil || state.Limit == 0 {
		return longestPause
	}
	threshold := state.Limit - min(g.marginOf(state.Limit), state.Limit)
	if state.Used < threshold {
		return pauseFor(threshold - state.Used)
	}
	victim, found := g.processes.Largest()
	if !found || victim.Bytes < worthKilling {
		return longestPause
	}
	callID, err := g.processes.KillForMemory(victim.PID)
	if err != nil {
		return shortestPause
	}
	g.record(Kill{At: time.Now(), Victim: victim, State: state, CallID: callID})
	g.awaitRelief(ctx, victim.PID)
	return shortestPause
}

func (g *Guard) marginOf(limit uint64) uint64 {
	if g.margin != 0 {
		return g.margin
	}
	return min(max(limit/32, 8<<20), 64<<20)
}

func pauseFor(left uint64) time.Duration {
	fastest := float64(left) / fastestBytesPerSecond * float64(time.Second)
	return min(max(time.Duration(fastest), shortestPause), longestPause)
}

// awaitRelief waits for the victim to give back its memory.
func (g *Guard) awaitRelief(ctx context.Context, pid int) {
	for end := time.Now().Add(dyingTime); time.Now().Before(end) && ctx.Err() == nil; {
		if _, alive := process.ReadUsage(pid); !alive {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (g *Guard) record(kill Kill) {
	fmt.Fprintf(os.Stderr, "sandboxd: killed %s (pid %d, %d bytes) at %d of %d bytes of memory\n",
		kill.Victim.Command, kill.Victim.PID, kill.Victim.Bytes, kill.State.Used, kill.State.Limit)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kills = append(g.kills, kill)
	if len(g.kills) > keptKills {
		g.kills = g.kills[1:]
	}
}

// Kills are the newest kills, oldest first.
func (g *Guard) Kills() []Kill {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Kill(nil), g.kills...)
}
