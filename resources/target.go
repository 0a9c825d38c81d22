package resources

import "strings"

// Target names the objects that an event, an action or a resync is about: one by name, or all that a selector chooses.
type Target struct {
	Kind     string    `json:"kind" protobuf:"1"`
	Name     string    `json:"name,omitempty" protobuf:"2"`
	Selector *Selector `json:"selector,omitempty" protobuf:"3"`
}

// Matches reports whether the object of this kind, name and labels is meant.
func (t *Target) Matches(kind, name string, labels map[string]string) bool {
	if t == nil || t.Kind != kind {
		return false
	}

	return t.Name == name && t.Name != "" || t.Selector.Matches(labels)
}

// Clone returns a copy that shares nothing.
func (t *Target) Clone() *Target {
	if t == nil {
		return nil
	}

	return &Target{Kind: t.Kind, Name: t.Name, Selector: t.Selector.Clone()}
}

// String is the target in short: VM/web-1, or VM{tier=web}.
func (t *Target) String() string {
	switch {
	case t == nil:
		return ""
	case t.Selector == nil:
		return t.Kind + "/" + t.Name
	}

	pairs := make([]string, 0, len(t.Selector.Match))
	for _, k := range SortedKeys(t.Selector.Match) {
		pairs = append(pairs, k+"="+t.Selector.Match[k])
	}

	return t.Kind + "{" + strings.Join(pairs, ",") + "}"
}

// validate checks that the kind exists and that exactly one of name and selector is there.
func (t *Target) validate(path string, errs *FieldErrors) {
	if t == nil {
		return
	}

	if k, ok := KindByName(t.Kind); !ok || k.Nature != Declared {
		errs.Add(path+".kind", "%q is not a kind: use VM, Host or Network", t.Kind)
	}

	switch {
	case t.Name == "" && t.Selector == nil:
		errs.Add(path, "a name or a selector is required; `selector: {}` means all")
	case t.Name != "" && t.Selector != nil:
		errs.Add(path, "give either a name or a selector, not both")
	case t.Name != "":
		if err := ValidateName(t.Name); err != nil {
			errs.Add(path+".name", "%s", err)
		}
	}
}
