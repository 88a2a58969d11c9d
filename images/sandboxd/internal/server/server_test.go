package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"assay.dev/sandboxd/internal/process"
	"assay.dev/sandboxd/internal/sandboxpb"
)

// The test binary is its own supervisor, as sandboxd is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		if err := process.Supervise(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Made late: in a supervisor it would take the command's status.
var reaper = sync.OnceValue(process.NewReaper)

func connect(t testing.TB) sandboxpb.SandboxClient {
	t.Helper()
	manager, err := process.NewManager(reaper(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{Version: "test", Manager: manager})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return sandboxpb.NewSandboxClient(connection)
}

func headerOf(path string, kind sandboxpb.Kind) *sandboxpb.UploadRequest {
	return &sandboxpb.UploadRequest{Part: &sandboxpb.UploadRequest_Header{
		Header: &sandboxpb.UploadHeader{Path: path, Kind: kind},
	}}
}

func chunkOf(data []byte) *sandboxpb.UploadRequest {
	return &sandboxpb.UploadRequest{Part: &sandboxpb.UploadRequest_Chunk{Chunk: data}}
}

func endOf(data []byte) *sandboxpb.UploadRequest {
	digest := sha256.Sum256(data)
	return &sandboxpb.UploadRequest{Part: &sandboxpb.UploadRequest_End{
		End: &sandboxpb.End{Size: uint64(len(data)), Sha256: digest[:]},
	}}
}

func upload(t *testing.T, client sandboxpb.SandboxClient, messages ...*sandboxpb.UploadRequest) (*sandboxpb.UploadReply, error) {
	t.Helper()
	stream, err := client.Upload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range messages {
		// The server may have refused already; CloseAndRecv tells why.
		if err := stream.Send(message); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return stream.CloseAndRecv()
}

func TestAnUploadCountsOnlyWhenItsEndAgrees(t *testing.T) {
	client := connect(t)
	folder := t.TempDir()
	data := bytes.Repeat([]byte("x"), 100_000)
	path := filepath.Join(folder, "file")
	header := headerOf(path, sandboxpb.Kind_KIND_FILE)
	cases := map[string]struct {
		messages []*sandboxpb.UploadRequest
		code     codes.Code
		says     string
	}{
		"cut after the header": {[]*sandboxpb.UploadRequest{header}, codes.DataLoss, "cut short after 0 bytes"},
		"cut after a chunk":    {[]*sandboxpb.UploadRequest{header, chunkOf(data)}, codes.DataLoss, "cut short after 100000 bytes"},
		"a chunk is missing":   {[]*sandboxpb.UploadRequest{header, chunkOf(data[1:]), endOf(data)}, codes.DataLoss, "99999 bytes came, 100000 were sent"},
		"a byte has changed": {[]*sandboxpb.UploadRequest{header, chunkOf(bytes.Repeat([]byte("y"), 100_000)), endOf(data)},
			codes.DataLoss, "damaged"},
		"nothing at all":       {nil, codes.DataLoss, "cut short"},
		"no header":            {[]*sandboxpb.UploadRequest{chunkOf(data)}, codes.InvalidArgument, "header: must be the first"},
		"two headers":          {[]*sandboxpb.UploadRequest{header, header}, codes.InvalidArgument, "only chunks and an end"},
		"an empty message":     {[]*sandboxpb.UploadRequest{header, {}}, codes.InvalidArgument, "only chunks and an end"},
		"relative path":        {[]*sandboxpb.UploadRequest{headerOf("a/b", sandboxpb.Kind_KIND_FILE)}, codes.InvalidArgument, `path: "a/b" is not an absolute path`},
		"no kind":              {[]*sandboxpb.UploadRequest{headerOf(path, 0)}, codes.InvalidArgument, "kind: KIND_UNSPECIFIED is neither"},
		"no archive":           {[]*sandboxpb.UploadRequest{headerOf(folder, sandboxpb.Kind_KIND_TAR), chunkOf(data), endOf(data)}, codes.InvalidArgument, "not a tar archive"},
		"an archive cut short": {[]*sandboxpb.UploadRequest{headerOf(folder, sandboxpb.Kind_KIND_TAR), chunkOf(make([]byte, 1024))}, codes.DataLoss, "cut short after 1024"},
		"onto a folder":        {[]*sandboxpb.UploadRequest{headerOf(folder, sandboxpb.Kind_KIND_FILE), endOf(nil)}, codes.FailedPrecondition, "is a directory"},
	}
	for name, c := range cases {
		_, err := upload(t, client, c.messages...)
		if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", name, err, c.code, c.says)
		}
		if entries, _ := os.ReadDir(folder); len(entries) != 0 {
			t.Errorf("%s: left %v", name, entries)
		}
	}
	reply, err := upload(t, client, header, chunkOf(data[:1]), chunkOf(nil), chunkOf(data[1:]), endOf(data))
	if err != nil || reply.Size != 100_000 {
		t.Fatal(reply, err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes arrived, %v", len(got), err)
	}
}

func TestAnUploadWhoseCallerGoesAwayLeavesNothing(t *testing.T) {
	client := connect(t)
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.Upload(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []*sandboxpb.UploadRequest{headerOf(filepath.Join(folder, "f"), sandboxpb.Kind_KIND_FILE), chunkOf(make([]byte, 1000))} {
		if err := stream.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	for entries := []os.DirEntry(nil); len(entries) == 0; {
		entries, _ = os.ReadDir(folder)
	}
	cancel()
	for entries := []os.DirEntry{nil}; len(entries) != 0; {
		entries, _ = os.ReadDir(folder)
	}
}

func download(t *testing.T, client sandboxpb.SandboxClient, request *sandboxpb.DownloadRequest) ([]byte, *sandboxpb.End, error) {
	t.Helper()
	stream, err := client.Download(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	var end *sandboxpb.End
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data, end, nil
		}
		if err != nil {
			return data, end, err
		}
		data = append(data, reply.GetChunk()...)
		if reply.GetEnd() != nil {
			end = reply.GetEnd()
		}
	}
}

func TestADownloadEndsWithItsSizeAndDigest(t *testing.T) {
	client := connect(t)
	path := filepath.Join(t.TempDir(), "f")
	for _, size := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3*chunkSize + 7} {
		want := bytes.Repeat([]byte("ab"), size)[:size]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		got, end, err := download(t, client, &sandboxpb.DownloadRequest{Path: path, Kind: sandboxpb.Kind_KIND_FILE})
		digest := sha256.Sum256(want)
		if err != nil || !bytes.Equal(got, want) || end.Size != uint64(size) || !bytes.Equal(end.Sha256, digest[:]) {
			t.Errorf("%d bytes: got %d, end %v, %v", size, len(got), end, err)
		}
	}
}

func TestDownloadsThatFail(t *testing.T) {
	client := connect(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "f"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, tar := sandboxpb.Kind_KIND_FILE, sandboxpb.Kind_KIND_TAR
	for _, c := range []struct {
		path  string
		kind  sandboxpb.Kind
		limit uint64
		code  codes.Code
	}{
		{folder + "/missing", file, 0, codes.NotFound},
		{folder + "/missing", tar, 0, codes.NotFound},
		{folder, file, 0, codes.NotFound},
		{folder + "/f", tar, 0, codes.NotFound},
		{folder + "/pipe", file, 0, codes.NotFound},
		{folder + "/f/g", file, 0, codes.FailedPrecondition},
		{"f", file, 0, codes.InvalidArgument},
		{folder + "/f", 0, 0, codes.InvalidArgument},
		{folder + "/f", file, 999, codes.ResourceExhausted},
		{folder, tar, 999, codes.ResourceExhausted},
	} {
		_, end, err := download(t, client, &sandboxpb.DownloadRequest{Path: c.path, Kind: c.kind, MaxSize: c.limit})
		if status.Code(err) != c.code || end != nil {
			t.Errorf("%s as %v: got %v, end %v, want %v", c.path, c.kind, err, end, c.code)
		}
	}
}

func TestNamesThatAreNotUTF8AreReported(t *testing.T) {
	client := connect(t)
	folder := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(folder, "caf\xe9"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, end, err := download(t, client, &sandboxpb.DownloadRequest{Path: folder, Kind: sandboxpb.Kind_KIND_TAR})
	if err != nil || len(end.Skipped) != 1 || !strings.HasPrefix(end.Skipped[0], "caf\uFFFD: is neither") {
		t.Errorf("got %v, %v", end, err)
	}
}

func TestRequestsToExecThatMakeNoSense(t *testing.T) {
	client := connect(t)
	script := &sandboxpb.ExecRequest_Script{Script: "true"}
	for says, request := range map[string]*sandboxpb.ExecRequest{
		"command: neither argv nor script": {},
		"argv: is empty":                   {Command: &sandboxpb.ExecRequest_Argv{Argv: &sandboxpb.Argv{}}},
		"timeout_ms: 18446744073709551615": {Command: script, TimeoutMs: 1<<64 - 1},
	} {
		stream, err := client.Exec(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	if _, err := client.Signal(t.Context(), &sandboxpb.SignalRequest{Signal: 65}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("signal 65: %v", err)
	}
	if _, err := client.Quit(t.Context(), &sandboxpb.QuitRequest{Code: 256}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("quit 256: %v", err)
	}
}

func TestExecStartsRunsAndExits(t *testing.T) {
	client := connect(t)
	stream, err := client.Exec(t.Context(), &sandboxpb.ExecRequest{
		Command: &sandboxpb.ExecRequest_Script{Script: "echo $$; exit 300"},
	})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetStarted().GetPid() == 0 {
		t.Fatal(first, err)
	}
	second, err := stream.Recv()
	if want := fmt.Sprintf("%d\n", first.GetStarted().GetPid()); err != nil || string(second.GetStdout()) != want {
		t.Errorf("got %v, %v, want %q", second, err, want)
	}
	last, err := stream.Recv()
	if err != nil || last.GetExit().GetCode() != 300%256 {
		t.Errorf("got %v, %v", last, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the exit: %v", err)
	}
}

// fuzzStream hands out messages that a stranger made.
type fuzzStream struct {
	grpc.ServerStream
	messages []*sandboxpb.UploadRequest
	reply    *sandboxpb.UploadReply
}

func (s *fuzzStream) Recv() (*sandboxpb.UploadRequest, error) {
	if len(s.messages) == 0 {
		return nil, io.EOF
	}
	message := s.messages[0]
	s.messages = s.messages[1:]
	return message, nil
}

func (s *fuzzStream) SendAndClose(reply *sandboxpb.UploadReply) error {
	s.reply = reply
	return nil
}

// FuzzUpload feeds arbitrary messages to an upload: it must not crash, and must
// succeed only when the end marker agrees with the chunks.
func FuzzUpload(f *testing.F) {
	add := func(messages ...*sandboxpb.UploadRequest) {
		var encoded [3][]byte
		for i, message := range messages {
			encoded[i], _ = proto.Marshal(message)
		}
		f.Add(encoded[0], encoded[1], encoded[2])
	}
	data := []byte("content")
	add(headerOf("/a/b", sandboxpb.Kind_KIND_FILE), chunkOf(data), endOf(data))
	add(headerOf("/../b", sandboxpb.Kind_KIND_TAR), chunkOf(make([]byte, 1024)), endOf(make([]byte, 1024)))
	add(headerOf("/", sandboxpb.Kind_KIND_FILE), endOf(nil))
	add(chunkOf(data), endOf(data))
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		folder := t.TempDir()
		stream := &fuzzStream{}
		var sent []byte
		for _, encoded := range [][]byte{first, second, third} {
			message := &sandboxpb.UploadRequest{}
			if proto.Unmarshal(encoded, message) != nil {
				continue
			}
			if header := message.GetHeader(); header != nil {
				// Root runs this: keep it in its folder.
				header.Path = filepath.Join(folder, filepath.Clean("/"+header.Path))
			}
			sent = append(sent, message.GetChunk()...)
			stream.messages = append(stream.messages, message)
		}
		err := (&service{}).Upload(stream)
		if (err == nil) != (stream.reply != nil) {
			t.Fatalf("error %v with reply %v", err, stream.reply)
		}
		if err == nil && stream.reply.Size > uint64(len(sent)) {
			t.Fatalf("%d bytes of %d were written", stream.reply.Size, len(sent))
		}
	})
}
