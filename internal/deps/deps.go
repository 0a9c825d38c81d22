//go:build deps

// Package deps keeps modules in go.mod while the packages that use them are being written.
package deps

import (
	_ "cel.dev/cel-go/cel"
	_ "cel.dev/cel-go/ext"
	_ "github.com/cloudevents/sdk-go/v2/event"
	_ "github.com/cosi-project/runtime/pkg/state/protobuf/client"
	_ "github.com/cosi-project/runtime/pkg/state/conformance"
	_ "github.com/cosi-project/runtime/pkg/resource/rtestutils"
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/google/renameio/v2"
	_ "github.com/kdomanski/iso9660"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats-server/v2"
	_ "github.com/nats-io/nats.go"
	_ "github.com/nats-io/nats.go/jetstream"
	_ "github.com/nats-io/nats.go/micro"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/robfig/cron/v3"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/spf13/cobra"
	_ "go.etcd.io/bbolt"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v4"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/time/rate"
	_ "google.golang.org/grpc"
	_ "libvirt.org/go/libvirt"
	_ "libvirt.org/go/libvirtxml"
	_ "pgregory.net/rapid"
)
