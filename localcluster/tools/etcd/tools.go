//go:build tools

// Package tools pins what localcluster builds; the versions live in go.mod alone.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
