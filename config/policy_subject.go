package config

import (
	"fmt"
	"strings"

	"gateway/resources"
)

// CheckSubject returns an error for a subject that documents can neither subscribe to nor publish on: the gateway's own,
// which would be a loop or a forged status, and the control subjects of the NATS server. Wildcards count for all that they
// match. It is also what a publisher asks after ${CEL} has become text.
func (p Policy) CheckSubject(subject string) error {
	prefix := p.NATSPrefix
	if prefix == "" {
		prefix = Default().NATS.Prefix
	}

	first, rest, more := strings.Cut(subject, ".")

	switch {
	case first == ">", more && (first == prefix || first == "*"):
		return fmt.Errorf("%q covers %s.>, which is the gateway's own", subject, prefix)
	case first == "$JS", first == "$SYS", first == "$SRV":
		return fmt.Errorf("%q belongs to the NATS server", subject)
	case first == "$KV" && (strings.HasPrefix(rest, prefix+"-") || strings.HasPrefix(rest, "*") || strings.HasPrefix(rest, ">")):
		return fmt.Errorf("%q covers the gateway's own buckets", subject)
	}

	return nil
}

// checkTrigger checks what a trigger publishes on; of a subject with ${CEL} only the part before it is known yet.
func (p Policy) checkTrigger(spec *resources.TriggerSpec, errs *resources.FieldErrors) {
	for i := range spec.Do {
		if spec.Do[i].Publish == nil {
			continue
		}

		if err := p.CheckSubject(spec.Do[i].Publish.Subject); err != nil {
			errs.Add(fmt.Sprintf("spec.do[%d].publish.subject", i), "%s", err)
		}
	}
}
