package documents

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/resources"
	"gateway/store"
)

// message is a delivery or a message whose declaration has an apply rule.
type message struct {
	attributes *resources.EventAttributes
	rule       *resources.ApplyRule
	data       []byte
}

// messageOf returns what is to be applied; ok is false for a resource that is no message.
func messageOf(event resource.Resource) (m message, ok bool) {
	switch e := event.(type) {
	case *resources.WebhookEvent:
		return message{&e.TypedSpec().Event, e.TypedSpec().Apply, e.TypedSpec().Data}, true
	case *resources.MessageEvent:
		return message{&e.TypedSpec().Event, e.TypedSpec().Apply, e.TypedSpec().Data}, true
	default:
		return message{}, false
	}
}

// origin is who declares what the message carries.
func (m *message) origin() resources.Origin {
	return resources.Origin{Source: resources.OriginSource(m.attributes.Source), Name: m.attributes.Name}
}

// documents decodes what the message carries.
func (m *message) documents() ([]config.Document, error) {
	return documentsOf(m.origin().String(), m.data, m.rule.Path)
}

// reconcileMessage applies what a sender declared, once. What is wrong with it is final: a sender sends again.
func (c *Controller) reconcileMessage(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	event, err := chain.Get[resource.Resource](ctx, r, ptr)
	if err != nil {
		return err
	}

	if event == nil {
		c.endMessage(ptr.ID())

		_, err := chain.Drop(ctx, r, resources.NewApplyResult(ptr.ID()).Metadata())

		return err
	}

	m, ok := messageOf(event)
	if !ok {
		return fmt.Errorf("%s %q has the Go type %T", ptr.Type(), ptr.ID(), event)
	}

	if !event.Metadata().Finalizers().Has(resources.FinalizerDocuments) {
		c.endMessage(ptr.ID())

		return nil
	}

	// A crash may have come between the result and the mark that the event is processed.
	result, err := resultOf(ctx, r, ptr.ID())
	if err != nil {
		return err
	}

	if m.rule != nil && (result == nil || result.TypedSpec().Sequence != m.attributes.Sequence) {
		if err := c.applyMessage(ctx, logger, r, ptr.ID(), m); err != nil {
			return err
		}
	}

	if err := chain.Release(ctx, r, ptr, resources.FinalizerDocuments); err != nil {
		return err
	}

	c.endMessage(ptr.ID())

	return nil
}

// endMessage forgets a message that was handled, or is gone.
func (c *Controller) endMessage(id resource.ID) {
	c.turns.end(id)
	c.messages.End(id)
}

// applyMessage applies a message when it is its turn.
func (c *Controller) applyMessage(ctx context.Context, logger *zap.Logger, r controller.QRuntime, id resource.ID, m message) error {
	waited := c.messages.Since(id, "")

	if err := c.lineUp(ctx, r, id); err != nil {
		return err
	}

	origin := m.origin()
	spec := resources.ApplyResultSpec{
		Origin: origin.String(), Sequence: m.attributes.Sequence, Digest: m.attributes.Digest, Time: time.Now(),
	}

	var refused []*store.AdmissionError

	documents, err := m.documents()
	c.turns.take(id, m, documents)

	if !c.turns.has(id) {
		return controller.NewRequeueInterval(leavingInterval)
	}

	if err != nil {
		spec.Error = err.Error()
		refused = append(refused, &store.AdmissionError{Reason: resources.ReasonInvalid, Message: spec.Error})
	} else {
		done, err := c.apply(ctx, r, documents, declaration{origin: origin, cause: m.attributes.ID, rule: m.rule})
		if err != nil {
			return fmt.Errorf("error applying event %s of %s: %w", m.attributes.ID, origin, err)
		}

		spec.Objects, refused = done.objects, done.refused
	}

	if slices.ContainsFunc(refused, waits) && waited < patience {
		return controller.NewRequeueInterval(leavingInterval)
	}

	if len(refused) > 0 {
		if spec.Error == "" {
			spec.Error = refused[0].Error()
		}

		logger.Warn("event could not be applied", zap.String("event", m.attributes.ID), zap.Stringer("origin", origin), zap.String("reason", spec.Error))

		if err := c.bury(m, refused); err != nil {
			return err
		}
	}

	if err := saveResult(ctx, r, id, spec); err != nil {
		return fmt.Errorf("error writing the result of event %s: %w", m.attributes.ID, err)
	}

	return nil
}

// bury notes a message as dead, with everything that is needed to replay it, and lets the sender send it again.
func (c *Controller) bury(m message, refused []*store.AdmissionError) error {
	attributes, err := json.Marshal(m.attributes)
	if err != nil {
		return fmt.Errorf("error writing the attributes of event %s: %w", m.attributes.ID, err)
	}

	text := refused[0].Message

	if refused[0].Object != "" {
		text = refused[0].Error()
	}

	if len(refused) > 1 {
		text = fmt.Sprintf("%s (and %d more)", text, len(refused)-1)
	}

	err = c.note(store.Entry{
		Class: store.ClassDead, Source: m.attributes.Source, Name: m.attributes.Name, EventID: m.attributes.ID, Peer: m.attributes.Peer,
		Object: refused[0].Object, Reason: refused[0].Reason, Message: text, Attributes: attributes, Data: m.data,
	})
	if err != nil {
		return err
	}

	if m.attributes.DeliveryID != "" {
		c.journal.Forget(m.attributes.Source, m.attributes.Name, m.attributes.DeliveryID)
	}

	c.metrics.dead.WithLabelValues(m.attributes.Source).Inc()

	return nil
}
