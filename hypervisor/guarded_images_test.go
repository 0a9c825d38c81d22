package hypervisor_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
)

var storedImage = hypervisor.ImageSpec{Name: hypervisor.ImageName("debian", strings.Repeat("0", 64), hypervisor.FormatRaw)}

// pieces is content of which each piece takes a while.
type pieces struct {
	left  atomic.Int64
	pause time.Duration
}

func newPieces(n int64, pause time.Duration) *pieces {
	p := &pieces{pause: pause}
	p.left.Store(n)

	return p
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.left.Add(-1) < 0 {
		return 0, io.EOF
	}

	time.Sleep(p.pause)

	return copy(b, "piece"), nil
}

func TestAnImageThatComesSlowlyIsWaitedForAndAHostThatHangsIsNot(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")

		// The other end of the content takes longer for each piece than a step may take.
		began := time.Now()
		file, err := d.StoreImage(t.Context(), storedImage, newPieces(20, 2*hypervisor.StepTimeout))
		require.NoError(t, err)
		require.EqualValues(t, 100, file.Bytes)
		require.Equal(t, 40*hypervisor.StepTimeout, time.Since(began))

		require.NoError(t, d.RemoveImage(t.Context(), storedImage.Name))

		release := w.Host("a").Inject(sim.Fault{Kind: sim.Stuck, Call: "StoreImage"})
		began = time.Now()
		_, err = d.StoreImage(t.Context(), storedImage, bytes.NewReader([]byte("content")))
		require.ErrorIs(t, err, hypervisor.ErrUnreachable)
		require.Equal(t, hypervisor.StepTimeout, time.Since(began))

		_, err = d.StoreImage(t.Context(), storedImage, bytes.NewReader([]byte("content")))
		require.ErrorIs(t, err, hypervisor.ErrBusy, "the call has not ended")
		release()
		synctest.Wait()
	})
}

func TestContentOfACallThatWasGivenUpIsNotReadOn(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")
		content := newPieces(1000, time.Second)

		go func() {
			time.Sleep(10 * time.Second)
			p.Remove("a")
		}()

		_, err := d.StoreImage(t.Context(), storedImage, content)
		require.ErrorIs(t, err, hypervisor.ErrConnectionLost)
		time.Sleep(time.Minute)
		require.Greater(t, content.left.Load(), int64(980))
		require.Equal(t, map[string]bool{storedImage.Name: false}, w.Host("a").Images(), "the connection is gone, and nobody could clean up")
	})
}

func TestAFileIsReadThroughThePool(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")
		w.Host("a").AddFile("/srv/x.img", sim.File{Content: []byte("content")})

		var got bytes.Buffer

		file, err := d.ReadFile(t.Context(), "/srv/x.img", &got)
		require.NoError(t, err)
		require.EqualValues(t, 7, file.Bytes)
		require.Equal(t, "content", got.String())

		_, err = d.ReadFile(t.Context(), "/srv/y.img", nil)
		require.ErrorIs(t, err, hypervisor.ErrNotFound)

		full := errors.New("no more")
		_, err = d.ReadFile(t.Context(), "/srv/x.img", writer(func([]byte) (int, error) { return 0, full }))
		require.ErrorIs(t, err, full)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
