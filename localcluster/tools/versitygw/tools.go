//go:build tools

// Package tools pins what localcluster builds; the versions live in go.mod alone.
package tools

import (
	_ "github.com/versity/versitygw/cmd/versitygw"
)
