package server

import (
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"assay.dev/sandboxd/internal/process"
	"assay.dev/sandboxd/internal/sandboxpb"
)

type execStream = grpc.ServerStreamingServer[sandboxpb.ExecReply]

func (s *service) Exec(request *sandboxpb.ExecRequest, stream execStream) error {
	spec, err := specOf(request)
	if err != nil {
		return err
	}
	exit, err := s.Manager.Run(stream.Context(), spec, &execSink{stream: stream})
	if err != nil {
		return statusOf(err)
	}
	reply := &sandboxpb.Exit{TimedOut: exit.TimedOut, OomKilled: exit.OOMKilled}
	if exit.Status.Signaled() {
		reply.Signal = int32(exit.Status.Signal())
		reply.Code = 128 + reply.Signal
	} else {
		reply.Code = int32(exit.Status.ExitStatus())
	}
	return stream.Send(&sandboxpb.ExecReply{Event: &sandboxpb.ExecReply_Exit{Exit: reply}})
}

func specOf(request *sandboxpb.ExecRequest) (*process.Spec, error) {
	spec := &process.Spec{
		Env:  request.Env,
		Cwd:  request.Cwd,
		User: request.User,
		ID:   request.CallId,
	}
	if request.TimeoutMs > uint64(math.MaxInt64/time.Millisecond) {
		return nil, status.Errorf(codes.InvalidArgument, "timeout_ms: %d is too large", request.TimeoutMs)
	}
	spec.Timeout = time.Duration(request.TimeoutMs) * time.Millisecond
	switch command := request.Command.(type) {
	case *sandboxpb.ExecRequest_Script:
		spec.Script = command.Script
	case *sandboxpb.ExecRequest_Argv:
		spec.Args = command.Argv.GetArgs()
		if len(spec.Args) == 0 {
			return nil, status.Error(codes.InvalidArgument, "argv: is empty; the first argument is the program")
		}
	default:
		return nil, status.Error(codes.InvalidArgument, "command: neither argv nor script is set")
	}
	return spec, nil
}

// execSink sends what a command does. A stream takes one message at a time.
type execSink struct {
	mu     sync.Mutex
	stream execStream
}

func (s *execSink) Started(pid int) error {
	return s.send(&sandboxpb.ExecReply{Event: &sandboxpb.ExecReply_Started{Started: &sandboxpb.Started{Pid: int32(pid)}}})
}

// Output sends a copy: gRPC has written data into a frame when Send returns.
func (s *execSink) Output(stream process.Stream, data []byte) error {
	if stream == process.Stdout {
		return s.send(&sandboxpb.ExecReply{Event: &sandboxpb.ExecReply_Stdout{Stdout: data}})
	}
	return s.send(&sandboxpb.ExecReply{Event: &sandboxpb.ExecReply_Stderr{Stderr: data}})
}

func (s *execSink) send(reply *sandboxpb.ExecReply) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(reply)
}
