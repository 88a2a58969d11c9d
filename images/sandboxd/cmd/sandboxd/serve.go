package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"assay.dev/sandboxd/internal/lifecycle"
	"assay.dev/sandboxd/internal/memory"
	"assay.dev/sandboxd/internal/process"
	"assay.dev/sandboxd/internal/server"
)

type options struct {
	socket         string
	runnerUID      uint
	memoryMargin   uint64
	lostTimeout    time.Duration
	startupTimeout time.Duration
	grace          time.Duration
	graceMargin    time.Duration
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("sandboxd serve", flag.ContinueOnError)
	flags.StringVar(&o.socket, "socket", "", "`path` of the Unix socket to serve on")
	flags.UintVar(&o.runnerUID, "runner-uid", math.MaxUint32, "`uid` of the runner, the only user who is served")
	flags.Uint64Var(&o.memoryMargin, "memory-margin", 0,
		"`bytes` below the memory limit at which the largest process is killed; 0: 1/32 of the limit, 8 to 64 MiB")
	flags.DurationVar(&o.lostTimeout, "runner-lost-timeout", time.Minute, "end after the runner has been gone for this long")
	flags.DurationVar(&o.startupTimeout, "startup-timeout", time.Hour, "end if no runner has come for this long; 0: never")
	flags.DurationVar(&o.grace, "grace", 30*time.Second, "the pod's termination grace period")
	flags.DurationVar(&o.graceMargin, "grace-margin", 2*time.Second, "how long before the end of the grace period to end")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("%q is not an option", flags.Arg(0))
	case o.socket == "":
		return nil, errors.New("--socket is missing")
	case o.runnerUID >= math.MaxUint32:
		return nil, errors.New("--runner-uid is missing, or no uid")
	case o.lostTimeout <= 0:
		return nil, errors.New("--runner-lost-timeout must be more than 0")
	}
	return o, nil
}

const exitUsage = 2

func serve(args []string) int {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandboxd serve: %v\n", err)
		return exitUsage
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "sandboxd serve: must be PID 1 of a container of its own (is shareProcessNamespace set?): "+
			"it kills every other process it can see")
		return exitUsage
	}
	code, err := servePID1(o)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandboxd serve: %v\n", err)
		return 1
	}
	return code
}

func servePID1(o *options) (int, error) {
	if err := harden(); err != nil {
		return 0, err
	}
	ended := make(chan int, 1)
	end := func(code int) {
		select {
		case ended <- code:
		default: // The first reason counts.
		}
	}
	endBecause := func(code int, reason string) {
		fmt.Fprintf(os.Stderr, "sandboxd: ending: %s\n", reason)
		end(code)
	}
	lifecycle.OnTermination(o.grace, o.graceMargin, endBecause)
	manager, err := process.NewManager(process.NewReaper(), os.Environ())
	if err != nil {
		return 0, err
	}
	service := server.Options{Version: version, Manager: manager, Quit: end}
	if cgroup, ok := memory.FindCgroup("/sys/fs/cgroup"); ok {
		manager.OOMKills = cgroup.OOMKills
		service.Cgroup = cgroup
		service.Guard = memory.NewGuard(cgroup, manager, o.memoryMargin)
		go service.Guard.Run(context.Background())
	}
	listener, err := lifecycle.ListenForRunner(o.socket, lifecycle.Runner{
		UID:        uint32(o.runnerUID),
		LostAfter:  o.lostTimeout,
		NeverAfter: o.startupTimeout,
		Lost:       endBecause,
	})
	if err != nil {
		return 0, err
	}
	grpcServer := server.New(service)
	failed := make(chan error, 1)
	go func() { failed <- grpcServer.Serve(listener) }()
	select {
	case code := <-ended:
		stop(grpcServer)
		return code, nil
	case err := <-failed:
		return 0, err
	}
}

// harden keeps a root user in the container from taking over PID 1: without
// CAP_SYS_PTRACE, which pods do not have, nobody can look into it or trace it.
func harden() error {
	process.IgnoreSignals()
	process.DefaultFaults()
	// Bursts of chunks must not make the heap grow: aim at 32 MB in all.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(18 << 20)
	unix.Umask(0o022)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing /proc/1 to others: %w", err)
	}
	return nil
}

// stop lets the answer to Quit out, but waits for nobody. The container's
// processes end with PID 1.
func stop(grpcServer *grpc.Server) {
	done := make(chan struct{})
	go func() {
		grpcServer.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

func supervise() error { return process.Supervise() }
