//go:build tools

// Package tools pins what localcluster builds; the versions live in go.mod alone.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
