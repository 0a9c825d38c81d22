package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"gateway/api"
	"gateway/broker"
	"gateway/resources"
)

// Limits. A NATS server takes messages of 1 MiB by default, more only where its operator says so: what is larger here would be
// a file of documents, which the socket takes. Sixteen requests at once keep two cores busy, and those behind them wait in the
// subscription, at most maxWaiting for each verb; further ones are dropped by the client library and time out at their sender.
const (
	maxBody    = 1 << 20
	maxAtOnce  = 16
	maxWaiting = 1024
	// deadline is longer than any requester waits; without it a store that hangs would hold the places for ever.
	deadline = 30 * time.Second
)

// HeaderDryRun, with the value true, makes an apply check everything and change nothing.
const HeaderDryRun = "Gateway-Dry-Run"

// Options configure the service.
type Options struct {
	Connection *nats.Conn
	Operations *api.Operations
	Names      broker.Names
	GatewayID  string
	// Version is the gateway's; one that is no semantic version is told in the metadata only.
	Version string
	// Open reports that everybody can connect to the NATS server without credentials: nothing is written then.
	Open   bool
	Logger *zap.Logger
}

// Service answers requests.
type Service struct {
	Options

	// places bounds the requests at once: whoever has all of them knows that none is under way.
	places chan struct{}
}

// New returns the service; Run does the work.
func New(o Options) *Service { return &Service{Options: o, places: make(chan struct{}, maxAtOnce)} }

// verb is one thing that can be asked for.
type verb struct {
	name, about string
	// writes: refused while everybody can connect.
	writes bool
	handle func(ctx context.Context, caller api.Caller, request micro.Request) (any, error)
}

func (s *Service) verbs() []verb {
	return []verb{
		{"apply", "declares the VMs of documents, JSON or YAML", true, s.apply},
		{"get", `one object, or those that a selector chooses: {"kind": "VM", "name": "web-1"}`, false, s.get},
		{"delete", `takes a VM away that a request declared: {"kind": "VM", "name": "web-1"}`, true, s.delete},
		{"sync", `reconciles objects now: {"kind": "VM", "selector": {"tier": "web"}}`, false, s.sync},
	}
}

// Run answers until ctx ends, and returns when the last answer is sent.
func (s *Service) Run(ctx context.Context) error {
	service, err := micro.AddService(s.Connection, micro.Config{
		Name: s.Names.Prefix, Version: semantic(s.Version), Description: "Gateway for libvirt",
		Metadata: map[string]string{"id": s.GatewayID, "version": s.Version},
	})
	if err != nil {
		return fmt.Errorf("error adding the service %s: %w", s.Names.Prefix, err)
	}

	group := service.AddGroup(s.Names.Prefix + ".request")

	for _, v := range s.verbs() {
		err := group.AddEndpoint(v.name, micro.HandlerFunc(func(r micro.Request) { s.take(ctx, v, r) }),
			micro.WithEndpointMetadata(map[string]string{"about": v.about, "writes": strconv.FormatBool(v.writes)}),
			micro.WithEndpointPendingLimits(maxWaiting, maxWaiting*maxBody))
		if err != nil {
			return fmt.Errorf("error adding the endpoint %s: %w", v.name, err)
		}
	}

	<-ctx.Done()

	err = service.Stop()

	for range cap(s.places) {
		s.places <- struct{}{}
	}

	if err != nil && !s.Connection.IsClosed() && s.Connection.IsConnected() {
		return fmt.Errorf("error stopping the service: %w", err)
	}

	return nil
}

// take answers one request, as soon as there is a place.
func (s *Service) take(ctx context.Context, v verb, r micro.Request) {
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		return
	}

	go func() {
		defer func() { <-s.places }()

		// A request that was begun is finished: its sender would not know what became of it.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
		defer cancel()

		s.answer(limited, v, r)
	}()
}

func (s *Service) answer(ctx context.Context, v verb, r micro.Request) {
	caller := api.NewCaller(resources.Origin{Source: resources.OriginRequest}, rule(), "nats reply "+r.Reply())

	body, err := s.run(ctx, v, caller, r)
	if err != nil {
		s.fail(v, r, err)

		return
	}

	if limit := s.Connection.MaxPayload(); int64(len(body)) > limit-headroom {
		s.fail(v, r, refuse(CodeTooLarge, "the answer has %d bytes, the NATS server takes %d: ask for less, with a name or a selector", len(body), limit))

		return
	}

	s.reply(v, r, &nats.Msg{Data: body})
}

// reply sends an answer by itself: those of the request are for handlers that answer before they return. The library reads then what
// became of the answer, which several goroutines here may still write.
func (s *Service) reply(v verb, r micro.Request, answer *nats.Msg) {
	answer.Subject = r.Reply()
	if err := s.Connection.PublishMsg(answer); err != nil {
		s.Logger.Debug("an answer could not be sent", zap.String("verb", v.name), zap.Error(err))
	}
}

// headroom is left for headers.
const headroom = 4 << 10

func (s *Service) run(ctx context.Context, v verb, caller api.Caller, r micro.Request) ([]byte, error) {
	switch {
	case r.Reply() == "":
		return nil, refuse(CodeInvalid, "a request needs a reply subject")
	case v.writes && s.Open:
		return nil, refuse(resources.ReasonBrokerNoAuth,
			"everybody can connect to this NATS server: set nats.embedded.tokenFile to allow requests that write")
	case len(r.Data()) > maxBody:
		return nil, refuse(CodeTooLarge, "the request has %d bytes, at most %d are taken", len(r.Data()), maxBody)
	}

	answer, err := v.handle(ctx, caller, r)
	if err != nil {
		return nil, err
	}

	body, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("error encoding the answer: %w", err)
	}

	return body, nil
}

// rule is what a requester may declare and take away.
func rule() *resources.ApplyRule {
	return &resources.ApplyRule{Kinds: []string{"VM"}, Names: "*", Delete: true}
}

// semantics is a semantic version with or without its v.
var semantics = regexp.MustCompile(`^v?((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*))$`)

// semantic is the version as micro services have to have one: 0.0.0 for a build that is no release.
func semantic(version string) string {
	if parts := semantics.FindStringSubmatch(version); parts != nil {
		return parts[1]
	}

	return "0.0.0"
}
