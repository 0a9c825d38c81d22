package resources

import (
	"strings"
)

// Limits of a trigger.
const (
	maxActions       = 32
	maxExpression    = 4096
	maxTriggerName   = 1024
	maxPublishedText = 1024
)

// Validate implements Validator. Expressions are compiled, not run.
func (s *TriggerSpec) Validate() (errs FieldErrors) {
	// A file is named by its path, all other sources by the name of an object.
	switch {
	case s.On.Name == "":
	case s.On.Source == "file":
		if len(s.On.Name) > maxTriggerName || strings.ContainsFunc(s.On.Name, isControl) {
			errs.Add("spec.on.name", "at most %d characters without control characters are allowed", maxTriggerName)
		}
	default:
		if err := ValidateName(s.On.Name); err != nil {
			errs.Add("spec.on.name", "%s", err)
		}
	}

	if len(s.When) > maxExpression {
		errs.Add("spec.when", "%d characters, at most %d are allowed", len(s.When), maxExpression)
	}

	if len(s.Do) == 0 {
		errs.Add("spec.do", "at least one action is required")
	}

	if len(s.Do) > maxActions {
		errs.Add("spec.do", "%d actions, at most %d are allowed", len(s.Do), maxActions)
	}

	for i := range s.Do {
		s.Do[i].validate(indexed("spec.do", i), &errs)
	}

	s.validateExpressions(&errs)

	return errs
}

// validate checks that exactly one action is given, and its parts.
func (a *TriggerAction) validate(at string, errs *FieldErrors) {
	given := 0

	for _, set := range []bool{a.Sync != nil, a.Apply != nil, a.Patch != nil, a.Delete != nil, a.Publish != nil} {
		if set {
			given++
		}
	}

	if given != 1 {
		errs.Add(at, "exactly one of sync, apply, patch, delete and publish is required")
	}

	a.Sync.validate(at+".sync", errs)
	a.Delete.validate(at+".delete", errs)

	if a.Apply != nil && !isObject(a.Apply.Document) {
		errs.Add(at+".apply.document", "a document is required")
	}

	if p := a.Patch; p != nil {
		(&Target{Kind: p.Kind, Name: p.Name, Selector: p.Selector}).validate(at+".patch", errs)

		if !isObject(p.Merge) {
			errs.Add(at+".patch.merge", "a mapping with metadata or spec is required")
		}
	}

	if a.Publish != nil {
		a.Publish.validate(at+".publish", errs)
	}
}

// validate checks the subject; what ${CEL} makes of it is checked again before it is published.
func (p *TriggerPublish) validate(at string, errs *FieldErrors) {
	if !strings.Contains(p.Subject, "${") {
		if !ValidSubject(p.Subject, false) {
			errs.Add(at+".subject", "%.64q is not a NATS subject without wildcards, as deploys.seen", p.Subject)
		}

		return
	}

	if len(p.Subject) > maxPublishedText {
		errs.Add(at+".subject", "%d characters, at most %d are allowed", len(p.Subject), maxPublishedText)
	}
}

// isObject reports whether the value is a JSON object.
func isObject(j JSON) bool { return len(j) > 0 && j[0] == '{' }
