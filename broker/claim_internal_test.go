package broker

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/config"
)

// connect starts an embedded server and returns a JetStream context of it.
func connect(t *testing.T) jetstream.JetStream {
	t.Helper()

	embedded, err := StartEmbedded(EmbeddedOptions{Listen: "127.0.0.1:0", DataDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(embedded.Stop)

	connection, err := Connect(config.NATS{}, embedded, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(connection.Close)

	js, err := jetstream.New(connection, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)

	return js
}

// Short enough for a test; a server looks for what expired at least once in a quarter of a second.
const (
	testLease   = time.Second
	testRenewal = 100 * time.Millisecond
)

func TestTheClaimOfADeadGatewayIsFreeAfterItsLease(t *testing.T) {
	js, names := connect(t), Names{Prefix: "home"}

	_, err := takeClaim(t.Context(), js, names, "dead", testLease, zap.NewNop())
	require.NoError(t, err)

	_, err = takeClaim(t.Context(), js, names, "heir", testLease, zap.NewNop())
	require.ErrorIs(t, err, ErrClaimed)

	require.Eventually(t, func() bool {
		_, err := takeClaim(t.Context(), js, names, "heir", testLease, zap.NewNop())

		return err == nil
	}, 10*testLease, testRenewal)
}

func TestALivingGatewayKeepsItsClaimBeyondTheLease(t *testing.T) {
	js, names := connect(t), Names{Prefix: "home"}

	claim, err := takeClaim(t.Context(), js, names, "alive", testLease, zap.NewNop())
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)

	go func() { done <- claim.keep(ctx, "alive", testRenewal) }()

	require.Never(t, func() bool {
		_, err := takeClaim(t.Context(), js, names, "other", testLease, zap.NewNop())

		return err == nil
	}, 2*testLease, testRenewal)

	cancel()
	require.NoError(t, <-done)
}

func TestAClaimThatWasLostIsTold(t *testing.T) {
	for name, id := range map[string]string{
		"to another gateway after the lease": "other",
		"to a second process of the same id": "mine",
	} {
		t.Run(name, func(t *testing.T) {
			js, names := connect(t), Names{Prefix: "home"}

			claim, err := takeClaim(t.Context(), js, names, "mine", testLease, zap.NewNop())
			require.NoError(t, err)

			if id != "mine" {
				require.NoError(t, claim.kv.Purge(t.Context(), claimKey), "as if it had expired")
			}

			heir, err := takeClaim(t.Context(), js, names, id, testLease, zap.NewNop())
			require.NoError(t, err)

			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)

			go func() { done <- heir.keep(ctx, id, testRenewal) }()

			require.ErrorIs(t, claim.keep(t.Context(), "mine", testRenewal), ErrClaimed)
			cancel()
			require.NoError(t, <-done, "the newer one goes on")
		})
	}
}

func TestAClaimThatExpiredIsTakenAgain(t *testing.T) {
	js, names := connect(t), Names{Prefix: "home"}

	claim, err := takeClaim(t.Context(), js, names, "mine", testLease, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, claim.kv.Purge(t.Context(), claimKey), "as if it had expired")
	require.NoError(t, claim.renew(t.Context(), "mine"))

	_, err = takeClaim(t.Context(), js, names, "other", testLease, zap.NewNop())
	require.ErrorIs(t, err, ErrClaimed)
}
