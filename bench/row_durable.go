package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"
	"go.uber.org/zap"

	"gateway/controllers/retention"
	"gateway/controllers/trigger"
	"gateway/resources"
	"gateway/sources/intake"
	"gateway/sources/webhooks"
	"gateway/store"
)

// durableArgs are the arguments of durableJob.
type durableArgs struct {
	Dir     string
	Senders int
	// Turn is how long each of the two runs at a time; they take turns twice.
	Turn time.Duration
}

// durableResult is in events a second.
type durableResult struct {
	Ours, OneByOne float64
	// Commits is how many transactions a second ours took, Commit the mean time of one.
	Commits float64
	Commit  time.Duration
}

// durableRow takes events in through the webhooks' handler, without a network, and compares with one fsync a write.
func durableRow(ctx context.Context, b *bench) ([]row, error) {
	dir, err := b.newDir()
	if err != nil {
		return nil, err
	}

	args := durableArgs{Dir: dir, Senders: 64, Turn: time.Duration(b.size(3000, 500)) * time.Millisecond}

	var r durableResult
	if err := b.do(ctx, "durable", args, &r); err != nil {
		return nil, err
	}

	ratio := r.Ours / r.OneByOne

	return []row{{
		name: "durable events taken in, 64 senders (webhooks' handler, 1 KB)", ours: fmt.Sprintf("%.0f/s in %.0f commits/s of %s", r.Ours, r.Commits, short(r.Commit)),
		limit: fmt.Sprintf("%.0f/s, one bolt fsync a write", r.OneByOne), ratio: ratio, goal: "at least 10", ok: meets(ratio >= 10),
	}}, nil
}

// eventBody is a payload of about 1 KB.
func eventBody() []byte {
	return []byte(`{"text":"` + string(bytes.Repeat([]byte("0123456789"), 100)) + `"}`)
}

// durableJob runs both in turns, on the same disk.
func durableJob(ctx context.Context, c *childContext) (any, error) {
	var args durableArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	registry := prometheus.NewRegistry()

	handler, stop, err := openIntake(ctx, args.Dir, registry)
	if err != nil {
		return nil, err
	}

	db, err := bbolt.Open(filepath.Join(args.Dir, "bare.db"), 0o600, nil)
	if err != nil {
		return nil, err
	}

	var (
		ours, bare int
		errs       []error
	)

	for range 2 {
		n, err := oneByOne(db, args.Turn)
		bare, errs = bare+n, append(errs, err)

		n, err = takeIn(handler, args.Senders, args.Turn)
		ours, errs = ours+n, append(errs, err)
	}

	spent := 2 * args.Turn.Seconds()
	result := durableResult{Ours: float64(ours) / spent, OneByOne: float64(bare) / spent}

	if n, sum, err := commits(registry); err != nil || n == 0 {
		errs = append(errs, err)
	} else {
		result.Commits, result.Commit = float64(n)/spent, time.Duration(sum/float64(n)*float64(time.Second))
	}

	cancel()

	return result, errors.Join(append(errs, db.Close(), stop())...)
}

// commits returns how many transactions the store made, and the sum of their seconds.
func commits(registry *prometheus.Registry) (n uint64, sum float64, err error) {
	families, err := registry.Gather()

	for _, f := range families {
		if f.GetName() == "gateway_store_commit_seconds" {
			for _, m := range f.GetMetric() {
				n, sum = n+m.GetHistogram().GetSampleCount(), sum+m.GetHistogram().GetSampleSum()
			}
		}
	}

	return n, sum, err
}

// oneByOne writes with an fsync each.
func oneByOne(db *bbolt.DB, turn time.Duration) (n int, err error) {
	body := eventBody()

	for end := time.Now().Add(turn); time.Now().Before(end); n++ {
		if err := db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("events"))
			if err != nil {
				return err
			}

			return bucket.Put([]byte(fmt.Sprintf("event-%09d", n)), body)
		}); err != nil {
			return n, err
		}
	}

	return n, nil
}

// takeIn lets senders send, each one event after the other.
func takeIn(handler http.Handler, senders int, turn time.Duration) (int, error) {
	var (
		wg     sync.WaitGroup
		taken  atomic.Int64
		number atomic.Int64
		failed atomic.Pointer[string]
		end    = time.Now().Add(turn)
		body   = eventBody()
	)

	for range senders {
		wg.Go(func() {
			for time.Now().Before(end) {
				request := httptest.NewRequest(http.MethodPost, "/hooks/bench", bytes.NewReader(body))
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Idempotency-Key", fmt.Sprintf("%d-%d", end.UnixNano(), number.Add(1)))

				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, request)

				switch answer.Code {
				case http.StatusAccepted:
					taken.Add(1)
				case http.StatusServiceUnavailable: // too many wait to be processed: as a sender would, try again
					time.Sleep(time.Millisecond)
				default:
					text := fmt.Sprintf("answered %d: %s", answer.Code, answer.Body)
					failed.Store(&text)

					return
				}
			}
		})
	}

	wg.Wait()

	if text := failed.Load(); text != nil {
		return int(taken.Load()), errors.New(*text)
	}

	return int(taken.Load()), nil
}

// openIntake runs what takes webhooks in, keeps and processes them: the real parts, without those that have no work here.
func openIntake(ctx context.Context, dir string, registry *prometheus.Registry) (http.Handler, func() error, error) {
	s, err := store.Open(ctx, store.Options{DataDir: filepath.Join(dir, "data"), Registry: registry})
	if err != nil {
		return nil, nil, err
	}

	metrics := intake.NewMetrics(registry)
	server := webhooks.NewServer(webhooks.Options{
		State: s.State(), Barrier: s, Journal: s.Journal(), Pacer: store.NewPacer(0), Metrics: metrics, Logger: zap.NewNop(),
	})

	rt, err := runtime.NewRuntime(s.State(), zap.NewNop())
	if err != nil {
		return nil, nil, err
	}

	if err := rt.RegisterController(webhooks.NewController(server)); err != nil {
		return nil, nil, err
	}

	for _, c := range []controller.QController{
		trigger.New(trigger.Options{Journal: s.Journal(), Registry: registry}), retention.New(retention.Options{}),
	} {
		if err := rt.RegisterQController(c); err != nil {
			return nil, nil, err
		}
	}

	done := make(chan error, 2)

	go func() { done <- rt.Run(ctx) }()
	go func() { done <- server.Run(ctx) }()

	hook := resources.NewWebhook("bench")
	hook.TypedSpec().Auth.None = true
	hook.TypedSpec().Limits.Rate, hook.TypedSpec().Limits.Concurrency = resources.Rate{}, 1024

	if err := hook.TypedSpec().Limits.Rate.UnmarshalText([]byte("1000000/s")); err != nil {
		return nil, nil, err
	}

	resources.SetUID(hook.Metadata(), "bench")

	if err := s.State().Create(ctx, hook); err != nil {
		return nil, nil, err
	}

	handler := server.Handler()

	err = poll(ctx, func() (bool, error) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/hooks/bench", nil))

		return answer.Code == http.StatusMethodNotAllowed, nil
	})

	return handler, func() error {
		<-done
		<-done

		return s.Close()
	}, err
}
