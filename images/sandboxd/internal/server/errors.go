package server

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"assay.dev/sandboxd/internal/process"
	"assay.dev/sandboxd/internal/transfer"
)

// statusOf gives an error the code that sandbox.proto promises for it.
func statusOf(err error) error {
	// As, not Is: a status may lie below what a reader wrapped around it.
	var already interface{ GRPCStatus() *status.Status }
	if errors.As(err, &already) {
		return already.GRPCStatus().Err()
	}
	return status.Error(codeOf(err), err.Error())
}

func codeOf(err error) codes.Code {
	var refused *process.RequestError
	var entry *transfer.EntryError
	var format *transfer.FormatError
	switch {
	case errors.As(err, &refused):
		return codes.FailedPrecondition
	case errors.Is(err, process.ErrPhaseEnded):
		return codes.Aborted
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, transfer.ErrChanged):
		return codes.DataLoss
	case isAnyOf(err, unix.ENOSPC, unix.EDQUOT, unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE):
		return codes.ResourceExhausted
	case errors.As(err, &entry), errors.As(err, &format):
		return codes.InvalidArgument
	case errors.Is(err, fs.ErrNotExist):
		return codes.NotFound
	case isAnyOf(err, unix.EISDIR, unix.ENOTDIR, unix.EACCES, unix.EPERM, unix.EROFS, unix.EBUSY, unix.ENAMETOOLONG, unix.ELOOP):
		return codes.FailedPrecondition
	}
	return codes.Internal
}

func isAnyOf(err error, candidates ...error) bool {
	for _, candidate := range candidates {
		if errors.Is(err, candidate) {
			return true
		}
	}
	return false
}
