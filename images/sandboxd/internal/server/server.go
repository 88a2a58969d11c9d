// Package server is the gRPC service that the runner talks to.
package server

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"assay.dev/sandboxd/internal/memory"
	"assay.dev/sandboxd/internal/process"
	"assay.dev/sandboxd/internal/sandboxpb"
)

// Options of the service.
type Options struct {
	Version string
	Manager *process.Manager
	// Cgroup and Guard are nil where the container has no memory limit.
	Cgroup *memory.Cgroup
	Guard  *memory.Guard
	// Quit is told the exit code that the runner chose. It must not wait.
	Quit func(code int)
}

type service struct {
	sandboxpb.UnimplementedSandboxServer
	Options
}

// New makes a gRPC server with the service.
func New(options Options) *grpc.Server {
	server := grpc.NewServer(
		// A script and an environment may be long; chunks are not.
		grpc.MaxRecvMsgSize(16<<20),
		// The default windows of 64 KiB cost half of the throughput.
		grpc.InitialWindowSize(1<<20),
		grpc.InitialConnWindowSize(2<<20),
		grpc.ReadBufferSize(256<<10),
		grpc.WriteBufferSize(256<<10),
	)
	sandboxpb.RegisterSandboxServer(server, &service{Options: options})
	return server
}

func (s *service) Signal(_ context.Context, request *sandboxpb.SignalRequest) (*sandboxpb.SignalReply, error) {
	if request.Signal < 1 || request.Signal > 64 {
		return nil, status.Errorf(codes.InvalidArgument, "signal: %d is not between 1 and 64", request.Signal)
	}
	// A call that has ended meanwhile is no error: the caller cannot know.
	s.Manager.Signal(request.CallId, unix.Signal(request.Signal))
	return &sandboxpb.SignalReply{}, nil
}

func (s *service) EndPhase(context.Context, *sandboxpb.EndPhaseRequest) (*sandboxpb.EndPhaseReply, error) {
	killed, err := s.Manager.EndPhase()
	if err != nil {
		return nil, statusOf(err)
	}
	return &sandboxpb.EndPhaseReply{Killed: uint32(killed)}, nil
}

func (s *service) Pause(context.Context, *sandboxpb.PauseRequest) (*sandboxpb.PauseReply, error) {
	paused, err := s.Manager.Pause()
	if err != nil {
		return nil, statusOf(err)
	}
	return &sandboxpb.PauseReply{Paused: uint32(paused)}, nil
}

func (s *service) Resume(context.Context, *sandboxpb.ResumeRequest) (*sandboxpb.ResumeReply, error) {
	if err := s.Manager.Resume(); err != nil {
		return nil, statusOf(err)
	}
	return &sandboxpb.ResumeReply{}, nil
}

func (s *service) Quit(_ context.Context, request *sandboxpb.QuitRequest) (*sandboxpb.QuitReply, error) {
	if request.Code < 0 || request.Code > 255 {
		return nil, status.Errorf(codes.InvalidArgument, "code: %d is not between 0 and 255", request.Code)
	}
	if _, err := s.Manager.EndPhase(); err != nil {
		// The container's end takes them along anyway.
		fmt.Fprintf(os.Stderr, "sandboxd: %v\n", err)
	}
	s.Options.Quit(int(request.Code))
	return &sandboxpb.QuitReply{}, nil
}

func (s *service) Stat(context.Context, *sandboxpb.StatRequest) (*sandboxpb.StatReply, error) {
	reply := &sandboxpb.StatReply{
		Version: s.Version,
		Pid:     int32(os.Getpid()),
		Calls:   uint32(s.Manager.Running()),
	}
	if processes, err := s.Manager.Processes(); err == nil {
		reply.Processes = uint32(len(processes))
	}
	reply.OwnRssBytes = process.ResidentBytes(os.Getpid())
	if s.Cgroup != nil {
		if state, err := s.Cgroup.Read(); err == nil {
			reply.MemoryLimitBytes, reply.MemoryUsedBytes = state.Limit, state.Used
		}
		reply.KernelOomKills = s.Cgroup.OOMKills()
	}
	if s.Guard != nil {
		for _, kill := range s.Guard.Kills() {
			reply.MemoryKills = append(reply.MemoryKills, &sandboxpb.MemoryKill{
				UnixMs:     kill.At.UnixMilli(),
				Pid:        int32(kill.Victim.PID),
				Command:    strings.ToValidUTF8(kill.Victim.Command, "\uFFFD"),
				RssBytes:   kill.Victim.Bytes,
				UsedBytes:  kill.State.Used,
				LimitBytes: kill.State.Limit,
				CallId:     kill.CallID,
			})
		}
	}
	return reply, nil
}
