package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway"
	"gateway/config"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// instance is a gateway that runs in this process.
type instance struct {
	*gateway.Gateway

	st state.State
	// documents is its documents directory, work one beside it.
	documents, work string
	cancel          context.CancelFunc
	done            chan error
}

// startGateway starts a gateway on a directory, with the defaults of a real one.
func startGateway(ctx context.Context, dir string, change func(*config.Config), options ...gateway.Option) (*instance, error) {
	cfg := config.Default()
	cfg.Documents = []string{filepath.Join(dir, "documents.d")}
	cfg.DataDir = filepath.Join(dir, "data")
	cfg.HTTP.Listen, cfg.NATS.Embedded.Listen = "127.0.0.1:0", "127.0.0.1:0"

	if change != nil {
		change(cfg)
	}

	work := filepath.Join(dir, "work")

	for _, d := range []string{cfg.Documents[0], work} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}

	quiet := zap.NewProductionConfig()
	quiet.Level = zap.NewAtomicLevelAt(zap.ErrorLevel)

	logger, err := quiet.Build()
	if err != nil {
		return nil, err
	}

	g, err := gateway.New(cfg, append(options, gateway.WithLogger(logger))...)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	i := &instance{Gateway: g, st: g.State(), documents: cfg.Documents[0], work: work, cancel: cancel, done: make(chan error, 1)}

	go func() { i.done <- g.Run(ctx) }()

	return i, nil
}

// stop ends it.
func (i *instance) stop() error {
	i.cancel()

	return <-i.done
}

// drop puts documents into the documents directory at once: they are written beside it, and one rename brings them in.
func (i *instance) drop(name string, files map[string]string) error {
	staging := filepath.Join(i.work, name)
	if err := os.Mkdir(staging, 0o700); err != nil {
		return err
	}

	for file, text := range files {
		if err := os.WriteFile(filepath.Join(staging, file), []byte(text), 0o600); err != nil {
			return err
		}
	}

	return os.Rename(staging, filepath.Join(i.documents, name))
}

// connected returns once so many hosts are.
func (i *instance) connected(ctx context.Context, hosts int) error {
	return poll(ctx, func() (bool, error) {
		list, err := i.st.List(ctx, resources.NewHostStatus("").Metadata())
		if err != nil {
			return false, err
		}

		n := 0

		for _, r := range list.Items {
			if r.(*resources.HostStatus).TypedSpec().Connected { //nolint:forcetypeassert // one type a kind
				n++
			}
		}

		return n == hosts, nil
	})
}

// poll asks every 10 ms until the condition holds.
func poll(ctx context.Context, condition func() (bool, error)) error {
	for {
		if ok, err := condition(); ok || err != nil {
			return err
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// metrics returns the sums of the series of each metric whose labels contain a text, as `metric` or `metric label="x"`.
func (i *instance) metrics(wanted ...string) ([]float64, error) {
	response, err := http.Get("http://" + i.HTTPAddr() + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read

	sums := make([]float64, len(wanted))
	lines := bufio.NewScanner(response.Body)

	for lines.Scan() {
		series, value, found := strings.Cut(lines.Text(), " ")
		if !found {
			continue
		}

		name, _, _ := strings.Cut(series, "{")

		for k, w := range wanted {
			metric, label, _ := strings.Cut(w, " ")
			if name != metric || !strings.Contains(series, label) {
				continue
			}

			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("error reading the metric %s: %w", series, err)
			}

			sums[k] += v
		}
	}

	return sums, lines.Err()
}

// quiet returns once nothing waits: no queue, no message, no write. The queue of hosts is never empty: they are looked at
// again at an interval.
func (i *instance) quiet(ctx context.Context) error {
	for calm := 0; calm < 5; {
		waiting, err := i.metrics("gateway_queue_length", `gateway_queue_length controller="host"`, "gateway_publish_lag", "gateway_store_queue_length")
		if err != nil {
			return err
		}

		if calm++; waiting[0]-waiting[1]+waiting[2]+waiting[3] > 0 {
			calm = 0
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}

	return nil
}

// gatewayArgs are the arguments of gatewayJob.
type gatewayArgs struct {
	Dir   string
	VMs   int
	Hosts int
	// PerFile is how many VMs one file has.
	PerFile int
	// URI of a host; each %d in it is its number.
	URI string
	// Networks is how many networks the VMs are on, one interface each; 0: none.
	Networks int
	// Paused starts the VMs paused.
	Paused bool
	// Hasty does not wait for the memory at rest.
	Hasty bool
}

// cachesExpire is after how long the NATS server gives up the 8 MiB that it writes each stream's messages from.
const cachesExpire = 12 * time.Second

// gatewayJob drops VM documents and measures until all run.
func gatewayJob(ctx context.Context, c *childContext) (any, error) {
	var args gatewayArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	i, err := startGateway(ctx, args.Dir, nil)
	if err != nil {
		return nil, err
	}

	f, err := args.converge(ctx, i)
	if stopped := i.stop(); err == nil {
		err = stopped
	}

	return f, err
}

func (a *gatewayArgs) converge(ctx context.Context, i *instance) (f footprint, err error) {
	if err := i.drop("hosts", map[string]string{"hosts.yaml": a.hosts()}); err != nil {
		return f, err
	}

	if err := i.connected(ctx, a.Hosts); err != nil {
		return f, err
	}

	all, err := countStatuses(ctx, i.st, a.VMs)
	if err != nil {
		return f, err
	}

	if f.Empty, err = resident(); err != nil {
		return f, err
	}

	files := a.files()
	start, cpu := time.Now(), cpuTime()

	if err := i.drop("vms", files); err != nil {
		return f, err
	}

	written := time.Since(start)

	select {
	case err = <-all:
	case err = <-i.done:
		err = fmt.Errorf("the gateway ended: %w", err)
	}

	if err != nil {
		return f, err
	}

	f.Wall, f.CPU = time.Since(start)-written, cpuTime()-cpu

	if err := i.quiet(ctx); err != nil {
		return f, err
	}

	f.Settled = cpuTime() - cpu

	clear(files)

	if !a.Hasty {
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(cachesExpire):
		}
	}

	if f.Full, err = resident(); err != nil {
		return f, err
	}

	rebuilds, err := i.metrics("gateway_runtime_rebuilds_total")
	if err != nil {
		return f, err
	}

	f.Rebuilds = int64(rebuilds[0])

	for _, n := range sim.Default().Changes() {
		f.Changes += n
	}

	return f, nil
}

// hosts returns the documents of the hosts and networks.
func (a *gatewayArgs) hosts() string {
	var b strings.Builder

	for n := range a.Hosts {
		uri := strings.ReplaceAll(a.URI, "%d", strconv.Itoa(n))

		fmt.Fprintf(&b, "---\napiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: host-%d}\nspec: {uri: %q, capacity: {cpus: 100000, memory: 100TiB}}\n", n, uri)
	}

	for n := range a.Networks {
		fmt.Fprintf(&b, "---\napiVersion: gateway/v1alpha1\nkind: Network\nmetadata: {name: lan-%d}\nspec: {mode: isolated, subnet: 10.%d.0.0/16}\n", n, n+1)
	}

	return b.String()
}

// files returns the files of the VMs.
func (a *gatewayArgs) files() map[string]string {
	files, text := map[string]string{}, strings.Builder{}

	for n := range a.VMs {
		fmt.Fprintf(&text, "---\napiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: %s, labels: {app: bench}}\nspec:\n  memory: 128MiB\n  shutdown: {grace: 1s}\n", vmName(n))

		if a.Networks > 0 {
			fmt.Fprintf(&text, "  interfaces: [{network: lan-%d}]\n", n%a.Networks)
		}

		if a.Paused {
			text.WriteString("  power: paused\n")
		}

		if (n+1)%a.PerFile == 0 || n == a.VMs-1 {
			files[vmName(n)+".yaml"] = text.String()
			text.Reset()
		}
	}

	return files
}
