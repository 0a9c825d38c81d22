package gateway

import (
	"sync"

	"go.uber.org/zap"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt"
	"gateway/hypervisor/sim"
)

// Option changes what New builds.
type Option func(*options)

type options struct {
	logger  *zap.Logger
	version string
	openers map[string]hypervisor.Opener
	// onReconcile is called at the start of each reconcile of a VM; nil: nobody is.
	onReconcile func(vm string)
}

func defaultOptions() options {
	return options{logger: zap.NewNop(), version: "unknown", openers: map[string]hypervisor.Opener{
		"sim":       sim.Open,
		"qemu":      libvirt.Open,
		"qemu+unix": libvirt.Open,
		"qemu+ssh":  libvirt.Open,
		"qemu+tls":  libvirt.Open,
		"test":      libvirt.Open,
		"test+unix": libvirt.Open,
	}}
}

// WithLogger sets the logger; the default logs nothing.
func WithLogger(logger *zap.Logger) Option { return func(o *options) { o.logger = logger } }

// WithVersion sets the version that the gateway says it has.
func WithVersion(version string) Option { return func(o *options) { o.version = version } }

// WithOpener sets what connects to hypervisors of a URI scheme: for tests and other drivers.
func WithOpener(scheme string, opener hypervisor.Opener) Option {
	return func(o *options) { o.openers[scheme] = opener }
}

// WithReconcileHook sets what is called at the start of each reconcile of a VM, with its name: to measure. It must not block.
func WithReconcileHook(hook func(vm string)) Option { return func(o *options) { o.onReconcile = hook } }

// health is the state of one part, for readiness.
type health struct {
	mu  sync.Mutex // guards err
	err error
}

func (h *health) set(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.err = err
}

func (h *health) get() error {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.err
}
