package resources

import (
	"errors"

	"gateway/resources/expression"
)

// validateExpressions compiles the condition and the templates, so that a syntax or type error is found where the trigger is
// declared, with its column.
func (s *TriggerSpec) validateExpressions(errs *FieldErrors) {
	if s.When != "" && len(s.When) <= maxExpression {
		_, err := expression.CompileCondition(s.When)
		errs.addExpression("spec.when", err)
	}

	for i := range s.Do {
		at, do := indexed("spec.do", i), &s.Do[i]

		if do.Apply != nil && isObject(do.Apply.Document) {
			_, err := expression.Interpolate(do.Apply.Document)
			errs.addExpression(at+".apply.document", err)
		}

		if do.Patch != nil && isObject(do.Patch.Merge) {
			_, err := expression.Interpolate(do.Patch.Merge)
			errs.addExpression(at+".patch.merge", err)
		}

		if do.Publish == nil {
			continue
		}

		_, err := expression.InterpolateText(do.Publish.Subject)
		errs.addExpression(at+".publish.subject", err)

		if len(do.Publish.Data) > 0 {
			_, err := expression.Interpolate(do.Publish.Data)
			errs.addExpression(at+".publish.data", err)
		}
	}
}

// addExpression notes a fault of an expression at the string that it is in.
func (e *FieldErrors) addExpression(path string, err error) {
	if err == nil {
		return
	}

	if fault, ok := errors.AsType[*expression.Error](err); ok && fault.Path != "" {
		inner := *fault
		path, inner.Path = join(path, inner.Path), ""
		err = &inner
	}

	e.Add(path, "%s", err)
}

// join appends a path within a value to the value's.
func join(path, inner string) string {
	if inner[0] == '[' {
		return path + inner
	}

	return path + "." + inner
}
