// Package memory keeps a container below its memory limit by killing its
// largest process in time.
//
// On cgroup v2 the kernel would kill the whole container, sandboxd and the
// agent's work with it; killing one process leaves the try a result.
package memory

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// State of a container's memory, in bytes.
type State struct {
	Limit uint64
	// Used is what reclaim cannot give back: files in the page cache are left
	// out, since the kernel drops those before it kills.
	Used uint64
}

const noLimit = 1 << 60

// Cgroup reads the memory controller that a container sees.
type Cgroup struct {
	usage, stat, limit, events string
	// limitInStat is version 1's "hierarchical_memory_limit": the pod's limit
	// holds for its containers too.
	limitInStat bool
}

// FindCgroup looks below root (/sys/fs/cgroup). ok is false where there is no
// memory controller, or no limit to guard.
func FindCgroup(root string) (cgroup *Cgroup, ok bool) {
	v2 := &Cgroup{
		usage:  filepath.Join(root, "memory.current"),
		stat:   filepath.Join(root, "memory.stat"),
		limit:  filepath.Join(root, "memory.max"),
		events: filepath.Join(root, "memory.events"),
	}
	v1 := &Cgroup{
		usage:       filepath.Join(root, "memory", "memory.usage_in_bytes"),
		stat:        filepath.Join(root, "memory", "memory.stat"),
		events:      filepath.Join(root, "memory", "memory.oom_control"),
		limitInStat: true,
	}
	for _, candidate := range []*Cgroup{v2, v1} {
		if _, err := candidate.Read(); err == nil {
			return candidate, true
		}
	}
	return nil, false
}

// Read reads the present state. Limit is 0 where there is none.
func (c *Cgroup) Read() (State, error) {
	used, err := readNumber(c.usage)
	if err != nil {
		return State{}, err
	}
	stat, err := readKeys(c.stat)
	if err != nil {
		return State{}, err
	}
	// Version 1 counts the children's under "total_".
	prefix := ""
	if c.limitInStat {
		prefix = "total_"
	}
	reclaimable := stat[prefix+"inactive_file"] + stat[prefix+"active_file"]
	state := State{Used: used - min(used, reclaimable), Limit: stat["hierarchical_memory_limit"]}
	if !c.limitInStat {
		if state.Limit, err = readNumber(c.limit); err != nil {
			return State{}, err
		}
	}
	// "No limit" is the largest multiple of the page size in version 1.
	if state.Limit >= noLimit {
		state.Limit = 0
	}
	return state, nil
}

// OOMKills counts the processes that the kernel has killed here.
func (c *Cgroup) OOMKills() uint64 {
	events, err := readKeys(c.events)
	if err != nil {
		return 0
	}
	return events["oom_kill"]
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	value := strings.TrimSpace(string(text))
	if value == "max" {
		return math.MaxInt64, nil
	}
	return strconv.ParseUint(value, 10, 64)
}

func readKeys(path string) (map[string]uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := map[string]uint64{}
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if number, err := strconv.ParseUint(string(value), 10, 64); err == nil {
			values[string(key)] = number
		}
	}
	return values, nil
}
