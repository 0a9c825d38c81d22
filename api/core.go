package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/owned"
	"github.com/google/uuid"

	"gateway/api/adoption"
	"gateway/config"
	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// Operations are what operators and requesters ask for, whatever way they come: the socket and the NATS service call them
// with who asks. What changes something is answered only once it is durable, and is in the journal.
type Operations struct {
	SocketOptions

	state  state.State
	writer *owned.State
}

// NewOperations returns the operations on a store.
func NewOperations(o SocketOptions) *Operations {
	return &Operations{SocketOptions: o, state: o.Store.State(), writer: owned.New(o.Store.State(), "")}
}

// Caller is who asks, and with what right.
type Caller struct {
	// ID is of this one command: the journal has it, and what the command changes has it as its cause.
	ID string
	// Origin is in whose name objects are declared and taken away; its source is the journal's too.
	Origin resources.Origin
	// Rule holds a sender; nil: an operator.
	Rule *resources.ApplyRule
	// Peer is who sent the command, as far as is known.
	Peer string
	// Begun is when: before everything that comes of it.
	Begun time.Time
}

// NewCaller returns a caller with a new id: SOURCE-, and 64 random bits in hex.
func NewCaller(origin resources.Origin, rule *resources.ApplyRule, peer string) Caller {
	random := strings.ReplaceAll(uuid.NewString(), "-", "")[16:]

	return Caller{ID: string(origin.Source) + "-" + random, Origin: origin, Rule: rule, Peer: peer, Begun: time.Now()}
}

// Finish journals a command and returns when all of it is durable.
func (o *Operations) Finish(ctx context.Context, c Caller, command, object string) error {
	err := o.Store.Journal().Append(store.Entry{
		Time: c.Begun, Class: store.ClassCommand, Source: string(c.Origin.Source), Name: command, EventID: c.ID, Object: object, Peer: c.Peer,
	})
	if err != nil {
		return fmt.Errorf("error writing the journal: %w", err)
	}

	if err := o.Store.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	return nil
}

// Apply declares the documents, in their order, hosts and networks first. All of a text that can't be decoded is refused;
// an object that is refused does not stop the others, and its outcome says why. file is what messages name.
func (o *Operations) Apply(ctx context.Context, c Caller, file string, documents []config.Document, dryRun bool) (Applied, error) {
	answer := Applied{Objects: make([]resources.AppliedObject, 0, len(documents))}

	for _, d := range inOrder(documents) {
		if err := o.Pacer.Wait(ctx); err != nil {
			return answer, fmt.Errorf("the gateway is busy: %w", err)
		}

		done, err := o.Admission.Apply(ctx, o.writer, store.Change{
			Object: d.Resource, Origin: c.Origin, Cause: c.ID, Rule: c.Rule, ExpectRevision: d.ExpectRevision, DryRun: dryRun,
			TakeFrom: takenFrom(c, d.Resource.Metadata()),
		})

		// What became of an object that was refused is in its outcome.
		if refused, ok := errors.AsType[*store.AdmissionError](err); ok {
			done.Revision = refused.Revision
		} else if err != nil {
			return answer, err
		}

		done.Line = d.Line
		answer.Objects = append(answer.Objects, done)
	}

	command := "apply"
	if dryRun {
		command = "apply --dry-run"
	}

	return answer, o.Finish(ctx, c, command, file)
}

// takenFrom returns the declarer whom an operator's document replaces, as one does that `gateway import` made of an object
// that is declared already; zero: none.
func takenFrom(c Caller, md *resource.Metadata) resources.Origin {
	text := resources.UserAnnotations(md)[adoption.Replaces]
	if text == "" || c.Rule != nil || c.Origin.Source != resources.OriginAPI {
		return resources.Origin{}
	}

	source, name, _ := strings.Cut(text, ":")

	return resources.Origin{Source: resources.OriginSource(source), Name: name}
}

// Deleted names an object whose teardown began.
type Deleted struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Lost names what was given up with a host that can't be reached, and is left behind there.
	Lost []string `json:"lost,omitempty"`
	// Kept names what a deletion leaves on a host on purpose: volumes whose disks say onDelete: keep.
	Kept []string `json:"kept,omitempty"`
	// UsedBy are the VMs that the object waits for.
	UsedBy []string `json:"usedBy,omitempty"`
}

// Delete takes an object away. One that somebody else declares is refused, unless forced.
func (o *Operations) Delete(ctx context.Context, c Caller, kindName, name string, force bool) (Deleted, error) {
	kind, err := kindOf(kindName)
	if err != nil {
		return Deleted{}, err
	}

	if _, err := o.one(ctx, kind, name); err != nil {
		return Deleted{}, err
	}

	if kind.Nature != resources.Declared {
		return Deleted{}, usage("a %s is not declared by anybody and can't be deleted", kind.Name)
	}

	removal := store.Removal{Kind: kind, Name: name, Origin: c.Origin, Cause: c.ID, Rule: c.Rule, Force: force}
	if force {
		if err := o.giveUp(ctx, c, &removal); err != nil {
			return Deleted{}, err
		}
	}

	if err := o.Admission.Delete(ctx, o.writer, removal); err != nil {
		return Deleted{}, err
	}

	deleted := Deleted{Kind: kind.Name, Name: name, Lost: removal.Lost}
	if !removal.Abandon {
		if deleted.Kept, err = o.kept(ctx, kind, name); err != nil {
			return deleted, err
		}

		if deleted.UsedBy, err = o.usedBy(ctx, kind, name); err != nil {
			return deleted, err
		}
	}

	command := "delete"

	if force {
		command = "delete --force"

		if err := o.passHold(ctx, c, kind, name); err != nil {
			return Deleted{}, err
		}
	}

	return deleted, o.Finish(ctx, c, command, kind.Name+"/"+name)
}

// Get returns one object.
func (o *Operations) Get(ctx context.Context, kind *resources.Kind, name string) (config.Object, error) {
	return o.one(ctx, kind, name)
}

// List returns the objects of a kind, sorted by name; selector nil: all.
func (o *Operations) List(ctx context.Context, kind *resources.Kind, selector *resources.Selector) (List, error) {
	objects, err := o.join(ctx, kind, selector)

	return List{Items: objects}, err
}

// Sync asks for objects to be reconciled now, and returns their target in full.
func (o *Operations) Sync(ctx context.Context, c Caller, target resources.Target) (resources.Target, error) {
	kind, err := kindOf(target.Kind)
	if err != nil {
		return target, err
	}

	target.Kind = kind.Name
	if target.Name == "" && target.Selector == nil {
		return target, usage("a name or a selector is required; the selector {} means all")
	}

	if target.Name != "" {
		if _, err := o.one(ctx, kind, target.Name); err != nil {
			return target, err
		}
	}

	if err := o.resync(ctx, target, c.ID); err != nil {
		return target, err
	}

	return target, o.Finish(ctx, c, "sync", target.String())
}

// resync writes the request to look at the target again.
func (o *Operations) resync(ctx context.Context, target resources.Target, cause string) error {
	id := "sync." + strings.ToLower(target.Kind) + "." + resources.EventID(target.String())

	err := o.writer.Modify(ctx, resources.NewResync(id), func(res resource.Resource) error {
		spec := res.Spec().(*resources.ResyncSpec) //nolint:forcetypeassert // one type a kind
		spec.Target, spec.Cause = &target, cause
		spec.Sequence++

		return nil
	})
	if err != nil {
		return fmt.Errorf("error asking for %s: %w", target.String(), err)
	}

	return nil
}

// LookupKind returns the kind that a user names: any case, singular or plural.
func (o *Operations) LookupKind(name string) (*resources.Kind, error) { return kindOf(name) }

// ProblemOf returns what an error says to who asked, and its status of HTTP. expected reports that it is the caller's, and
// not the gateway's own.
func ProblemOf(err error) (problem Problem, status int, expected bool) {
	problem, status, expected = Problem{Errors: []string{err.Error()}}, http.StatusInternalServerError, true

	if faults, ok := errors.AsType[config.Errors](err); ok {
		status, problem.Errors = http.StatusUnprocessableEntity, nil
		for _, f := range faults {
			problem.Errors = append(problem.Errors, f.Error())
		}
	} else if refused, ok := errors.AsType[*store.AdmissionError](err); ok {
		status, problem.Reason = http.StatusConflict, refused.Reason
	} else if _, ok := errors.AsType[*errUsage](err); ok {
		status = http.StatusBadRequest
	} else if errors.Is(err, errNotFound) {
		status = http.StatusNotFound
	} else if errors.Is(err, hypervisor.ErrUnreachable) {
		status, problem.Reason = http.StatusServiceUnavailable, resources.ReasonHostUnreachable
	} else {
		expected = false
	}

	return problem, status, expected
}
