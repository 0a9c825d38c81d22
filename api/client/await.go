package client

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"gateway/resources"
)

// Unmet is a goal that was not reached, and why, as far as it is known.
type Unmet struct {
	Goal

	Why string
}

// Await returns when every goal is reached, with those that were not when ctx's deadline came; in both cases without an error.
// progress, which may be nil, is told of each change of what is waited for, one call at a time.
func (c *Client) Await(ctx context.Context, goals []Goal, progress func(g Goal, reached bool, why string)) ([]Unmet, error) {
	if progress == nil {
		progress = func(Goal, bool, string) {}
	}

	a := &await{progress: progress, why: map[string]string{}, goals: map[string]Goal{}}
	kinds := map[string]*pending{}

	for _, g := range goals {
		if kinds[g.Kind] == nil {
			kinds[g.Kind] = &pending{await: a, names: map[string]bool{}, seen: map[string]bool{}}
		}

		kinds[g.Kind].names[g.Name] = true
		a.goals[g.String()] = g
	}

	group, watching := errgroup.WithContext(ctx)

	for kind, p := range kinds {
		only := ""
		if len(p.names) == 1 {
			only = anyOf(p.names)
		}

		p.kind = kind

		group.Go(func() error { return c.Watch(watching, kind, only, "", p.visit) })
	}

	err := group.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, context.Cause(ctx)
	}

	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}

	return a.unmet(goals), nil
}

func anyOf(names map[string]bool) string {
	for name := range names {
		return name
	}

	return ""
}

// await is what is known of all goals.
type await struct {
	mu       sync.Mutex // guards the following, and makes calls of progress one at a time
	progress func(g Goal, reached bool, why string)
	goals    map[string]Goal   // not reached yet
	why      map[string]string // by the goal's object
}

func (a *await) unmet(goals []Goal) []Unmet {
	var unmet []Unmet

	for _, g := range goals {
		if _, waits := a.goals[g.String()]; waits {
			unmet = append(unmet, Unmet{Goal: g, Why: cmp.Or(a.why[g.String()], "the gateway has not answered")})
		}
	}

	return unmet
}

// pending are the goals of one kind.
type pending struct {
	await *await
	kind  string
	names map[string]bool // not reached yet
	seen  map[string]bool // until the first Synced
}

// visit implements the watch of one kind: it goes on until no goal of it is open.
func (p *pending) visit(change Change) (bool, error) {
	switch change.Type {
	case Synced:
		for name := range p.names {
			if !p.seen[name] {
				p.absent(name)
			}
		}
	case Deleted:
		p.absent(change.Name)
	default:
		p.seen[change.Name] = true

		if err := p.present(change.Object); err != nil {
			return false, err
		}
	}

	return len(p.names) > 0, nil
}

func (p *pending) absent(name string) {
	if !p.names[name] {
		return
	}

	if goal := p.goal(name); goal.gone {
		p.reached(goal)
	} else {
		p.waits(goal, "it does not exist")
	}
}

func (p *pending) present(o *Object) error {
	if !p.names[o.Metadata.Name] {
		return nil
	}

	goal := p.goal(o.Metadata.Name)

	if goal.gone {
		status, err := StatusOf[observed](o)
		if err != nil {
			return err
		}

		why := "it is still there"
		if c := resources.FindCondition(status.Conditions, resources.ConditionConverged); c != nil && c.Status != resources.ConditionTrue {
			why += ": " + Explain(c)
		}

		p.waits(goal, why)

		return nil
	}

	reached, why, err := goal.check(o)
	if err != nil {
		return err
	}

	if reached {
		p.reached(goal)
	} else {
		p.waits(goal, why)
	}

	return nil
}

func (p *pending) goal(name string) Goal {
	p.await.mu.Lock()
	defer p.await.mu.Unlock()

	return p.await.goals[Goal{Kind: p.kind, Name: name}.String()]
}

func (p *pending) reached(g Goal) {
	p.await.mu.Lock()
	defer p.await.mu.Unlock()

	delete(p.names, g.Name)
	delete(p.await.goals, g.String())
	p.await.progress(g, true, "")
}

func (p *pending) waits(g Goal, why string) {
	p.await.mu.Lock()
	defer p.await.mu.Unlock()

	if p.await.why[g.String()] != why {
		p.await.why[g.String()] = why
		p.await.progress(g, false, why)
	}
}
