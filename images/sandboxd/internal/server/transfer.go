package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"assay.dev/sandboxd/internal/process"
	"assay.dev/sandboxd/internal/sandboxpb"
	"assay.dev/sandboxd/internal/transfer"
)

const chunkSize = 256 << 10

func (s *service) Upload(stream grpc.ClientStreamingServer[sandboxpb.UploadRequest, sandboxpb.UploadReply]) error {
	first, err := stream.Recv()
	if err != nil {
		return cut(err, 0)
	}
	reader := &uploadReader{receive: stream.Recv, digest: sha256.New()}
	if err := s.write(first.GetHeader(), reader); err != nil {
		// Read what is still on the way: gRPC's Python client forgets the status
		// of a call that ends while it writes.
		for readErr := error(nil); readErr == nil; {
			_, readErr = stream.Recv()
		}
		return statusOf(err)
	}
	return stream.SendAndClose(&sandboxpb.UploadReply{Size: reader.size})
}

func (s *service) write(header *sandboxpb.UploadHeader, content io.Reader) error {
	if header == nil {
		return status.Error(codes.InvalidArgument, "header: must be the first message of an upload")
	}
	if err := checkPath(header.Path); err != nil {
		return err
	}
	owner, err := ownerOf(header.User)
	if err != nil {
		return err
	}
	path := filepath.Clean(header.Path)
	switch header.Kind {
	case sandboxpb.Kind_KIND_FILE:
		if header.Mode > 0o777 {
			return status.Errorf(codes.InvalidArgument, "mode: %#o has more than the permission bits", header.Mode)
		}
		mode := fs.FileMode(header.Mode)
		if mode == 0 {
			mode = 0o644
		}
		return transfer.WriteFile(path, content, header.ExpectedSize, mode, owner)
	case sandboxpb.Kind_KIND_TAR:
		return transfer.Extract(path, content, owner)
	}
	return status.Errorf(codes.InvalidArgument, "kind: %v is neither file nor tar", header.Kind)
}

func ownerOf(user string) (transfer.Owner, error) {
	if user == "" {
		return transfer.Owner{}, nil
	}
	identity, err := process.LookupUser(user)
	if err != nil {
		return transfer.Owner{}, err
	}
	return transfer.Owner{Set: true, UID: identity.UID, GID: identity.GID}, nil
}

func checkPath(path string) error {
	if !filepath.IsAbs(path) || strings.Contains(path, "\x00") {
		return status.Errorf(codes.InvalidArgument, "path: %q is not an absolute path", path)
	}
	return nil
}

// uploadReader is the content of an upload. It ends well only after an end
// marker that agrees with what came.
type uploadReader struct {
	receive func() (*sandboxpb.UploadRequest, error)
	chunk   []byte
	size    uint64
	digest  hash.Hash
	end     error
}

func (r *uploadReader) Read(p []byte) (int, error) {
	for len(r.chunk) == 0 {
		if r.end != nil {
			return 0, r.end
		}
		r.end = r.next()
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

func (r *uploadReader) next() error {
	message, err := r.receive()
	if err != nil {
		return cut(err, r.size)
	}
	switch part := message.Part.(type) {
	case *sandboxpb.UploadRequest_Chunk:
		r.chunk = part.Chunk
		r.size += uint64(len(part.Chunk))
		r.digest.Write(part.Chunk)
		return nil
	case *sandboxpb.UploadRequest_End:
		if part.End.GetSize() != r.size || string(part.End.GetSha256()) != string(r.digest.Sum(nil)) {
			return status.Errorf(codes.DataLoss, "the upload is damaged: %d bytes came, %d were sent", r.size, part.End.GetSize())
		}
		return io.EOF
	}
	return status.Error(codes.InvalidArgument, "part: only chunks and an end may follow the header of an upload")
}

func cut(err error, size uint64) error {
	if errors.Is(err, io.EOF) {
		return status.Errorf(codes.DataLoss, "the upload was cut short after %d bytes", size)
	}
	return err
}

func (s *service) Download(request *sandboxpb.DownloadRequest, stream grpc.ServerStreamingServer[sandboxpb.DownloadReply]) error {
	if err := checkPath(request.Path); err != nil {
		return err
	}
	writer := &downloadWriter{
		send:   stream.Send,
		limit:  request.MaxSize,
		buffer: make([]byte, 0, chunkSize),
		digest: sha256.New(),
	}
	skipped, err := read(request, writer)
	if err != nil {
		return statusOf(err)
	}
	if err := writer.flush(); err != nil {
		return err
	}
	return stream.Send(&sandboxpb.DownloadReply{Part: &sandboxpb.DownloadReply_End{End: &sandboxpb.End{
		Size:    writer.size,
		Sha256:  writer.digest.Sum(nil),
		Skipped: validTexts(skipped),
	}}})
}

func read(request *sandboxpb.DownloadRequest, writer *downloadWriter) (skipped []string, err error) {
	path := filepath.Clean(request.Path)
	switch request.Kind {
	case sandboxpb.Kind_KIND_FILE:
		file, mode, err := transfer.OpenFile(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if err := writer.header(uint32(mode)); err != nil {
			return nil, err
		}
		_, err = writer.ReadFrom(file)
		return nil, err
	case sandboxpb.Kind_KIND_TAR:
		return transfer.Pack(path, writer)
	}
	return nil, status.Errorf(codes.InvalidArgument, "kind: %v is neither file nor tar", request.Kind)
}

// downloadWriter sends what is written to it in chunks of one size.
type downloadWriter struct {
	send   func(*sandboxpb.DownloadReply) error
	limit  uint64
	buffer []byte
	size   uint64
	digest hash.Hash
}

func (w *downloadWriter) header(mode uint32) error {
	return w.send(&sandboxpb.DownloadReply{Part: &sandboxpb.DownloadReply_Header{
		Header: &sandboxpb.DownloadHeader{Mode: mode},
	}})
}

func (w *downloadWriter) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n := copy(w.buffer[len(w.buffer):cap(w.buffer)], p[written:])
		w.buffer = w.buffer[:len(w.buffer)+n]
		written += n
		if len(w.buffer) == cap(w.buffer) {
			if err := w.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// ReadFrom saves a file's content one copy.
func (w *downloadWriter) ReadFrom(r io.Reader) (int64, error) {
	start := w.size
	for {
		n, err := io.ReadFull(r, w.buffer[:cap(w.buffer)])
		w.buffer = w.buffer[:n]
		if sendErr := w.flush(); sendErr != nil {
			return int64(w.size - start), sendErr
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return int64(w.size - start), nil
		}
		if err != nil {
			return int64(w.size - start), err
		}
	}
}

func (w *downloadWriter) flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	w.size += uint64(len(w.buffer))
	if w.limit != 0 && w.size > w.limit {
		return status.Errorf(codes.ResourceExhausted, "max_size: more than %d bytes", w.limit)
	}
	w.digest.Write(w.buffer)
	// The buffer can be used again: Send has written it into a frame.
	err := w.send(&sandboxpb.DownloadReply{Part: &sandboxpb.DownloadReply_Chunk{Chunk: w.buffer}})
	w.buffer = w.buffer[:0]
	return err
}

// validTexts makes file names fit into protobuf strings, which are UTF-8.
func validTexts(texts []string) []string {
	valid := make([]string, len(texts))
	for i, text := range texts {
		valid[i] = fmt.Sprintf("%.1000s", strings.ToValidUTF8(text, "\uFFFD"))
	}
	return valid
}
