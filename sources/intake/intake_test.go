package intake_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/sources/intake"
)

func TestSourcesShareOneRegistration(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := intake.NewMetrics(registry)

	m.Received(resources.SourceFile)
	m.Received(resources.SourceWebhook)
	m.Refused(resources.SourceWebhook, "signature")
	m.Pending(resources.SourceFile, 7)
	m.AddPending(resources.SourceFile, -2)

	intake.NewMetrics(registry).AddPending(resources.SourceFile, 1) // of a rebuilt runtime

	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 3)
	require.Equal(t, "gateway_events_pending", families[0].GetName())
	require.InDelta(t, 6, families[0].GetMetric()[0].GetGauge().GetValue(), 0)
}

func TestMetricsOfNobodyCountNothing(t *testing.T) {
	var m *intake.Metrics

	m.Received("x")
	m.Refused("x", "y")
	m.Pending("x", 1)
	m.AddPending("x", 1)
}

type countingPacer struct {
	waits int
	err   error
}

func (p *countingPacer) Wait(context.Context) error {
	p.waits++

	return p.err
}

func TestPaceWaitsOncePerBatch(t *testing.T) {
	pacer := &countingPacer{}
	pace := intake.Pace{Pacer: pacer}

	for range 250 {
		require.NoError(t, pace.Before(t.Context()))
	}

	require.Equal(t, 3, pacer.waits)

	pacer.err = errors.New("stopped")
	failed := intake.Pace{Pacer: pacer}
	require.ErrorIs(t, failed.Before(t.Context()), pacer.err)
}

func TestPaceWithoutPacerHonoursTheContext(t *testing.T) {
	var pace intake.Pace

	require.NoError(t, pace.Before(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, pace.Before(ctx), context.Canceled)
}
