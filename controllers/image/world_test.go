package image_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gateway/controllers/chain/chaintest"
	"gateway/controllers/image"
	"gateway/controllers/network"
	"gateway/controllers/placement"
	"gateway/controllers/vm"
	"gateway/hypervisor"
	"gateway/resources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const url = "https://images.example/debian.qcow2"

// server is where images come from: the test says what is there, and how fast.
type server struct {
	mu      sync.Mutex // guards the following
	content map[string][]byte
	opened  map[string]int
	// pause is the time between two pieces of 1 KiB.
	pause time.Duration
}

// Open implements image.Source.
func (s *server) Open(ctx context.Context, url string) (io.ReadCloser, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.opened[url]++

	content, ok := s.content[url]
	if !ok {
		return nil, 0, errors.New("the server answers 404 Not Found")
	}

	return &slow{ctx: ctx, from: bytes.NewReader(content), pause: s.pause}, int64(len(content)), nil
}

func (s *server) put(url string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.content[url] = content
}

func (s *server) downloads(url string) int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.opened[url]
}

type slow struct {
	ctx   context.Context //nolint:containedctx // as a body has that of its request
	from  io.Reader
	pause time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.pause):
		return s.from.Read(p[:min(len(p), 1024)])
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func (s *slow) Close() error { return nil }

// world is a rig with a server of images.
type world struct {
	*chaintest.Rig

	server *server
}

// inWorld runs a test in virtual time, with all controllers of the chain and host a.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		w := &world{server: &server{content: map[string][]byte{}, opened: map[string]int{}}}
		w.Rig = chaintest.New(t, func(g *chaintest.Rig) []controller.QController {
			registry := prometheus.NewRegistry()

			return []controller.QController{
				placement.New(placement.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID}),
				network.New(network.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID, Barrier: g.Store, Journal: g.Store.Journal()}),
				vm.New(vm.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID, Barrier: g.Store, Journal: g.Store.Journal(), Registry: registry}),
				image.New(image.Options{Pool: g.Pool, Barrier: g.Store, Journal: g.Store.Journal(), Source: w.server, Registry: registry}),
			}
		})
		w.host("a")
		test(t, w)
		w.Stop()
		require.Empty(t, w.World.Violations())
	})
}

func (w *world) host(name string) {
	w.T.Helper()
	w.AddHost(name, resources.Capacity{CPUs: 1000, Memory: resources.TiB, Disk: resources.TiB})
	w.Settle()
}

// qcow2 is the start of an image of 2 MiB, and some content.
func qcow2(version uint32, change func(header []byte)) []byte {
	header := make([]byte, 4096)
	copy(header, "QFI\xfb")
	binary.BigEndian.PutUint32(header[4:], version)
	binary.BigEndian.PutUint64(header[24:], uint64(2*resources.MiB))

	if change != nil {
		change(header)
	}

	return header
}

func digest(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// declare declares an image of a URL whose content is to be this one.
func (w *world) declare(name string, content []byte) {
	w.T.Helper()

	i := resources.NewImage(name)
	*i.TypedSpec() = resources.ImageSpec{Source: url, SHA256: digest(content)}
	w.Create(i)
}

// vm declares a VM with a disk from an image.
func (w *world) vm(name, image string, change func(*resources.Disk)) {
	w.T.Helper()

	v := resources.NewVMConfig(name)
	v.TypedSpec().Shutdown.Grace = resources.Duration(time.Second)
	v.TypedSpec().Disks = []resources.Disk{{Name: "root", Image: image, OnDelete: resources.OnDeleteRemove}}

	if change != nil {
		change(&v.TypedSpec().Disks[0])
	}

	w.Create(v)
}

// on returns what the image's status says of a host.
func (w *world) on(name, host string) resources.ImageOnHost {
	w.T.Helper()

	status := chaintest.Get(w.Rig, resources.NewImageStatus(name))
	require.NotNil(w.T, status)

	for _, e := range status.TypedSpec().Hosts {
		if e.Host == host {
			return e
		}
	}

	return resources.ImageOnHost{}
}

// ready returns the image's condition, which has to have the status.
func (w *world) ready(name string, want resources.ConditionStatus) *resources.Condition {
	w.T.Helper()

	c := resources.FindCondition(chaintest.Get(w.Rig, resources.NewImageStatus(name)).TypedSpec().Conditions, resources.ConditionReady)
	require.NotNil(w.T, c)
	require.Equal(w.T, want, c.Status, "%+v", *c)

	return c
}

// why returns a condition of a VM.
func (w *world) why(vm, condition string) *resources.Condition {
	w.T.Helper()

	status := chaintest.Get(w.Rig, resources.NewVMStatus(vm))
	require.NotNil(w.T, status)

	return resources.FindCondition(status.TypedSpec().Conditions, condition)
}

func (w *world) state(vm string) string {
	w.T.Helper()

	if status := chaintest.Get(w.Rig, resources.NewVMStatus(vm)); status != nil {
		return status.TypedSpec().State
	}

	return ""
}

func fileName(image string, content []byte) string {
	return hypervisor.ImageName(image, digest(content), hypervisor.FormatQCOW2)
}
