package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// A claim is renewed three times within its lease: two lost renewals do not lose it.
const (
	claimLease   = 15 * time.Second
	claimRenewal = 5 * time.Second
	claimKey     = "owner"
)

// ErrClaimed says that another living gateway publishes under this prefix.
var ErrClaimed = errors.New("the NATS prefix is claimed")

// owner is what the claim says.
type owner struct {
	ID    string    `json:"id"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// Claim is a held claim on the prefix.
type Claim struct {
	kv     jetstream.KeyValue
	value  []byte
	prefix string
	logger *zap.Logger

	mu       sync.Mutex // guards revision
	revision uint64
}

// TakeClaim claims the prefix for the gateway of this id. It returns ErrClaimed, with who holds it, where another living
// gateway does; the own id retakes it at once.
func TakeClaim(ctx context.Context, js jetstream.JetStream, names Names, id string, logger *zap.Logger) (*Claim, error) {
	return takeClaim(ctx, js, names, id, claimLease, logger)
}

func takeClaim(
	ctx context.Context, js jetstream.JetStream, names Names, id string, lease time.Duration, logger *zap.Logger,
) (*Claim, error) {
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: names.ClaimBucket(), TTL: lease, History: 1, Description: "which gateway publishes under " + names.Prefix,
	})
	if err != nil {
		return nil, fmt.Errorf("error making the bucket %s: %w", names.ClaimBucket(), err)
	}

	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}

	value, err := json.Marshal(owner{ID: id, Host: host, PID: os.Getpid(), Since: time.Now().UTC()})
	if err != nil {
		return nil, fmt.Errorf("error encoding the claim: %w", err)
	}

	c := &Claim{kv: kv, value: value, prefix: names.Prefix, logger: logger}

	retake := func(holder owner, _ []byte) bool { return holder.ID == id }

	return c, c.take(ctx, retake)
}

// take makes the claim, or takes over one that mine says is ours.
func (c *Claim) take(ctx context.Context, mine func(holder owner, value []byte) bool) error {
	revision, err := c.kv.Create(ctx, claimKey, c.value)

	if errors.Is(err, jetstream.ErrKeyExists) {
		entry, getErr := c.kv.Get(ctx, claimKey)
		if getErr != nil {
			return fmt.Errorf("error reading the claim on the prefix %q: %w", c.prefix, getErr)
		}

		var holder owner
		if json.Unmarshal(entry.Value(), &holder) != nil || !mine(holder, entry.Value()) {
			return fmt.Errorf("%w: %q is used by gateway %s on %s (pid %d) since %s; choose another nats.prefix",
				ErrClaimed, c.prefix, holder.ID, holder.Host, holder.PID, holder.Since.Format(time.RFC3339))
		}

		revision, err = c.kv.Update(ctx, claimKey, c.value, entry.Revision())
	}

	if err != nil {
		return fmt.Errorf("error claiming the prefix %q: %w", c.prefix, err)
	}

	c.mu.Lock()
	c.revision = revision
	c.mu.Unlock()

	return nil
}

// Keep renews the claim until ctx ends, and then gives it up. It returns ErrClaimed if somebody else took it: another
// gateway, after the connection was away for longer than the lease, or a second process of this id (a copied data
// directory), of which the older one ends.
func (c *Claim) Keep(ctx context.Context, id string) error {
	return c.keep(ctx, id, claimRenewal)
}

func (c *Claim) keep(ctx context.Context, id string, renewal time.Duration) error {
	ticker := time.NewTicker(renewal)
	defer ticker.Stop()

	for failing := false; ; {
		select {
		case <-ctx.Done():
			return c.giveUp()
		case <-ticker.C:
		}

		err := c.renew(ctx, id)

		switch {
		case errors.Is(err, ErrClaimed):
			return err
		case err != nil && !failing && ctx.Err() == nil:
			c.logger.Warn("the claim on the NATS prefix can't be renewed; it is tried again", zap.Error(err))
		case err == nil && failing:
			c.logger.Info("the claim on the NATS prefix is renewed again")
		}

		failing = err != nil
	}
}

func (c *Claim) renew(ctx context.Context, id string) error {
	limited, cancel := context.WithTimeout(ctx, claimRenewal)
	defer cancel()

	c.mu.Lock()
	revision := c.revision
	c.mu.Unlock()

	next, err := c.kv.Update(limited, claimKey, c.value, revision)
	if err != nil {
		// Expired, or an update whose answer was lost: claim anew.
		return c.take(limited, func(holder owner, value []byte) bool {
			return holder.ID == id && bytes.Equal(value, c.value)
		})
	}

	c.mu.Lock()
	c.revision = next
	c.mu.Unlock()

	return nil
}

// giveUp deletes the claim so that another gateway can start at once.
func (c *Claim) giveUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	c.mu.Lock()
	defer c.mu.Unlock()

	if err := c.kv.Delete(ctx, claimKey, jetstream.LastRevision(c.revision)); err != nil {
		c.logger.Debug("the claim on the NATS prefix was not given up; it expires by itself", zap.Error(err))
	}

	return nil
}
