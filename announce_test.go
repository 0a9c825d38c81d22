package gateway_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"gateway"
	"gateway/config"
)

func TestAGatewayThatHasNotAllItsPortsDoesNotSayThatItRuns(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	t.Cleanup(func() { require.NoError(t, taken.Close()) })

	cfg := config.Default()
	cfg.Documents, cfg.DataDir = []string{t.TempDir()}, t.TempDir()
	cfg.HTTP.Listen, cfg.NATS.Embedded.Listen = "127.0.0.1:0", taken.Addr().String()

	core, logs := observer.New(zapcore.InfoLevel)
	g, err := gateway.New(cfg, gateway.WithLogger(zap.New(core)))
	require.NoError(t, err)

	require.ErrorContains(t, g.Run(t.Context()), taken.Addr().String())
	require.Empty(t, logs.FilterMessage("the gateway runs").All())
}
