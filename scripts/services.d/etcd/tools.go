//go:build tools

// Names the programs that go.mod is for, so that the module files keep what they need.
package tools

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
