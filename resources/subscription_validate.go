package resources

import (
	"strings"
	"time"
)

// Limits of a subscription.
const (
	maxDeliveries = 100
	minAckWait    = time.Second
	maxAckWait    = time.Hour
)

// Validate implements Validator. That the subject is not the gateway's own is the admission's question, which knows the
// prefix.
func (s *SubscriptionSpec) Validate() (errs FieldErrors) {
	if !ValidSubject(s.Subject, true) {
		errs.Add("spec.subject", "%.64q is not a NATS subject of at most %d characters, as ops.vm.>", s.Subject, MaxSubject)
	}

	if s.Stream != "" && (len(s.Stream) > maxStreamName || !streamName.MatchString(s.Stream)) {
		errs.Add("spec.stream", "%.64q is not the name of a stream", s.Stream)
	}

	switch {
	case s.Queue == "":
	case s.Stream != "":
		errs.Add("spec.queue", "only for core NATS: with a stream the gateway has a consumer of its own")
	case !ValidSubject(s.Queue, false):
		errs.Add("spec.queue", "%.64q is not the name of a queue group", s.Queue)
	}

	if s.Deliver.Policy == "since" && s.Deliver.Since <= 0 {
		errs.Add("spec.deliver", "since needs a duration, as {since: 1h}")
	}

	if s.Stream == "" && s.Deliver.Policy != "new" {
		errs.Add("spec.deliver", "%s needs a stream: core NATS delivers only what is new", s.Deliver.Policy)
	}

	if s.MaxDeliver < 1 || s.MaxDeliver > maxDeliveries {
		errs.Add("spec.maxDeliver", "%d is not between 1 and %d", s.MaxDeliver, maxDeliveries)
	}

	if w := s.AckWait.Std(); w < minAckWait || w > maxAckWait {
		errs.Add("spec.ackWait", "%s is not between %s and %s", s.AckWait, Duration(minAckWait), Duration(maxAckWait))
	}

	if s.MaxBytes < 1 || s.MaxBytes > maxBody {
		errs.Add("spec.maxBytes", "%s is not between 1 byte and %s", s.MaxBytes, maxBody)
	}

	if strings.HasPrefix(s.Subject, "$JS.") || strings.HasPrefix(s.Subject, "$SYS.") {
		errs.Add("spec.subject", "%q belongs to the NATS server", s.Subject)
	}

	s.Target.validate("spec.target", &errs)
	s.Apply.validate("spec.apply", &errs)

	return errs
}
