package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gateway/resources"
	"gateway/store"
)

// Story says why something is as it is: what led to it, and what that led to.
type Story struct {
	// About is the object (VM/web-1), or the id of the event.
	About string `json:"about"`
	// Now is how the object is; nil for an event.
	Now *Now `json:"now,omitempty"`
	// Chains are one for each cause, the oldest first.
	Chains []Chain `json:"chains"`
	// NATS says why it is not known what was published.
	NATS string `json:"nats,omitempty"`
}

// Now is the state of an object.
type Now struct {
	Deleted    bool                  `json:"deleted,omitempty"`
	State      string                `json:"state,omitempty"`
	Host       string                `json:"host,omitempty"`
	Revision   int64                 `json:"revision"`
	Origin     string                `json:"origin,omitempty"`
	Cause      string                `json:"cause,omitempty"`
	Conditions []resources.Condition `json:"conditions,omitempty"`
}

// Chain is what one cause led to.
type Chain struct {
	// Cause is the id of an event or of a command, or a word: resync.
	Cause string `json:"cause"`
	// Before is the event that this one is a replay of.
	Before string `json:"before,omitempty"`
	// Known reports that the journal still has the cause itself.
	Known bool   `json:"known"`
	Steps []Step `json:"steps"`
}

// Step is one thing that happened.
type Step struct {
	Time time.Time `json:"time"`
	// Step is event, refused, command, trigger, revision, hypervisor, published, dead, forced, purged or replayed.
	Step    string `json:"step"`
	Source  string `json:"source,omitempty"`
	Name    string `json:"name,omitempty"`
	Object  string `json:"object,omitempty"`
	Peer    string `json:"peer,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Bounds of a story: what fits a terminal. A reconcile that went on for hours has its newest steps.
const (
	maxChains    = 5
	maxSteps     = 500
	maxStory     = 500 // entries about an object that are looked through for causes
	maxAffected  = 10  // objects whose published statuses are looked for
	maxPublished = 50  // of each
	maxReplays   = 8
)

// Entries that say what was done to an object, and those that are about the cause itself.
var (
	ofObjects = []store.Class{store.ClassRevision, store.ClassHypervisor, store.ClassForced}
	ofNobody  = []store.Class{
		store.ClassEvent, store.ClassRefused, store.ClassCommand, store.ClassTrigger, store.ClassPublished, store.ClassDead, store.ClassPurged,
	}
)

// WhyEvent tells what an event, or a command, led to.
func (o *Operations) WhyEvent(ctx context.Context, id string) (Story, error) {
	story := Story{About: id}

	for next, i := id, 0; next != "" && i < maxReplays; i++ {
		chain, err := o.chain(ctx, next, nil)
		if err != nil {
			return story, err
		}

		story.Chains = append([]Chain{chain}, story.Chains...)
		next = chain.Before
	}

	own := &story.Chains[len(story.Chains)-1]

	objects, err := o.affected(ctx, own)
	if err != nil {
		return story, err
	}

	if !own.Known && len(own.Steps) == 0 && len(objects) == 0 {
		return story, fmt.Errorf("event %q in the journal, which keeps 24 h: %w", id, errNotFound)
	}

	for _, object := range objects[:min(len(objects), maxAffected)] {
		if err := o.addPublished(ctx, own, object); err != nil {
			story.NATS = err.Error()

			break
		}
	}

	return story, nil
}

// chain reads what the journal has of a cause. With objects, what was done to others is left out: an event may concern
// thousands.
func (o *Operations) chain(ctx context.Context, cause string, objects []string) (Chain, error) {
	chain := Chain{Cause: cause, Steps: []Step{}}

	// Operators' commands name the event as their object.
	queries := []store.Query{{Object: eventObject(cause), Limit: maxReplays}}

	if objects == nil {
		queries = append(queries, store.Query{EventID: cause, Limit: maxSteps})
	} else {
		queries = append(queries, store.Query{EventID: cause, Classes: ofNobody, Limit: maxSteps})
	}

	for _, object := range objects {
		queries = append(queries, store.Query{EventID: cause, Object: object, Classes: ofObjects, Limit: maxSteps})
	}

	var entries []store.Entry

	for _, q := range queries {
		found, err := o.Store.Journal().Query(ctx, q)
		if err != nil {
			return chain, fmt.Errorf("error reading the journal: %w", err)
		}

		entries = append(entries, found...)
	}

	slices.SortStableFunc(entries, func(a, b store.Entry) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Number, b.Number))
	})

	for i := range entries {
		e := &entries[i]
		step := Step{
			Time: e.Time, Step: string(e.Class), Source: e.Source, Name: e.Name, Object: e.Object, Peer: e.Peer, Reason: e.Reason, Message: e.Message,
		}

		switch e.Class {
		case store.ClassEvent, store.ClassRefused:
			chain.Known = true

			if before, ok := ReplayedEvent(e); ok {
				chain.Before = before
			}

			if text := describeEvent(e); text != "" {
				step.Message = strings.TrimSpace(text + " " + parenthesised(e.Message))
			}
		case store.ClassCommand:
			chain.Known = true
		}

		chain.Steps = append(chain.Steps, step)
	}

	return chain, nil
}

func parenthesised(text string) string {
	if text == "" {
		return ""
	}

	return "(" + text + ")"
}

// describeEvent is the type and the subject of an event.
func describeEvent(e *store.Entry) string {
	letter := letterOf(e)

	return strings.TrimSpace(letter.Type + " " + letter.Subject)
}

// affected returns the objects that a cause changed, or whose status it is the cause of.
func (o *Operations) affected(ctx context.Context, chain *Chain) ([]string, error) {
	var objects []string

	add := func(object string) {
		if !slices.Contains(objects, object) {
			objects = append(objects, object)
		}
	}

	for _, step := range chain.Steps {
		if slices.Contains(ofObjects, store.Class(step.Step)) {
			add(step.Object)
		}
	}

	for kindName, status := range map[string]string{"VM": "VMStatus", "Host": "HostStatus"} {
		kind, _ := resources.KindByName(status)

		list, err := o.state.List(ctx, kind.List())
		if err != nil {
			return nil, fmt.Errorf("error listing %s: %w", kind.Plural, err)
		}

		for _, r := range list.Items {
			cause := resources.CauseOf(r.Metadata())
			if vm, ok := r.Spec().(*resources.VMStatusSpec); ok {
				cause = vm.Cause
			}

			if cause == chain.Cause {
				add(kindName + "/" + r.Metadata().ID())
			}
		}
	}

	return objects, nil
}

// addPublished adds the statuses of an object that were published because of the chain's cause.
func (o *Operations) addPublished(ctx context.Context, chain *Chain, object string) error {
	kind, name, _ := strings.Cut(object, "/")
	if kind != "VM" && kind != "Host" || o.Broker == nil {
		return nil
	}

	since := time.Now().Add(-24 * time.Hour)
	if len(chain.Steps) > 0 {
		since = chain.Steps[0].Time.Add(-time.Second) // the server's clock may be another one
	}

	published, err := o.Broker.Published(ctx, kind, name, since, maxPublished)
	if err != nil {
		return err
	}

	for _, p := range published {
		if p.Cause != chain.Cause {
			continue
		}

		chain.Steps = append(chain.Steps, Step{
			Time: p.Time, Step: string(store.ClassPublished), Source: "status", Name: p.Subject, Object: object, Reason: p.Type,
			Message: fmt.Sprintf("%s, kept in %s as message %d", p.MessageID, p.Stream, p.Sequence),
		})
	}

	slices.SortStableFunc(chain.Steps, func(a, b Step) int { return a.Time.Compare(b.Time) })

	return nil
}

func (o *operations) whyEvent(w http.ResponseWriter, r *http.Request) error {
	story, err := o.WhyEvent(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, story)

	return nil
}

func (o *operations) whyObject(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r.PathValue("kind"))
	if err != nil {
		return err
	}

	story, err := o.WhyObject(r.Context(), kind, r.PathValue("name"))
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, story)

	return nil
}
