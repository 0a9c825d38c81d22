package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/state/owned"

	"gateway/config"
	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// operate declares a VM as an operator does through the API, changes it, or takes it away.
func (w *world) operate() {
	name := apiName(w.rand.IntN(apiCount))
	w.model.version++

	d := randomVM(w.rand, name, w.model.version)
	gone := w.model.ci[name] != nil && w.rand.IntN(3) == 0

	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}

	documents, err := config.Decode("api", text)
	if err != nil {
		panic(err)
	}

	origin := resources.Origin{Source: resources.OriginAPI}
	err = w.ask(func(ctx context.Context, p *process) error {
		writer := owned.New(p.store.State(), "")

		if gone {
			return p.admission.Delete(ctx, writer, store.Removal{Kind: documents[0].Kind, Name: name, Origin: origin, Cause: "api"})
		}

		_, err := p.admission.Apply(ctx, writer, store.Change{Object: documents[0].Resource, Origin: origin, Cause: "api"})

		return err
	})
	w.trace.add("operator: %s (gone %v): %v; %s %s", name, gone, err, d["metadata"], text)

	if _, refused := errors.AsType[*store.AdmissionError](err); refused {
		return
	}

	w.model.unsure[name] = err != nil
	w.model.ci[name] = d

	if gone {
		w.model.ci[name] = nil
	}
}

// ask does something as the API does: it is answered once it is durable.
func (w *world) ask(do func(context.Context, *process) error) error {
	p := w.process

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	done := make(chan error, 1)

	go func() {
		err := do(ctx, p)
		if err == nil {
			err = p.store.Barrier(ctx)
		}

		done <- err
	}()

	var err error

	select {
	case err = <-done:
	case <-p.gate.killed:
		cancel()
		<-done
	}

	if !p.gate.lives() {
		w.pass(time.Millisecond) // it is started again

		return errKilled
	}

	return err
}

// takeName makes a domain of somebody else with the name of a VM, for a while.
func (w *world) takeName() {
	name, h := w.anyVM(), w.anyHost()
	d := hypervisor.Domain{
		Name: name, UUID: hypervisor.DomainUUID("somebody", fmt.Sprint(h.Name(), name, w.model.version)), State: resources.StateRunning,
		Spec: hypervisor.DomainSpec{CPUs: 1, Memory: resources.GiB},
	}
	err := h.AddDomain(d)
	w.trace.add("somebody takes the name %s on %s: %v", name, h.Name(), err)

	if err != nil {
		return
	}

	w.model.foreign[h.Name()][d.UUID], _ = h.Domain(d.UUID)
	w.model.takers = append(w.model.takers, taker{h.Name(), d.UUID})
}

type taker struct{ host, uuid string }

// giveNames takes the domains away that have a VM's name, unless somebody did it before.
func (w *world) giveNames() {
	for _, t := range w.model.takers {
		h := w.sim.Host(t.host)

		before := w.model.foreign[t.host][t.uuid]
		if now, ok := h.Domain(t.uuid); !ok || !untouched(&now, &before) {
			w.breakage("the foreign domain %s on %s was touched: %+v", before.Name, t.host, now)
		}

		h.Destroy(t.uuid)
		h.Undefine(t.uuid)
		delete(w.model.foreign[t.host], t.uuid)
		w.trace.add("the name %s is free on %s", before.Name, t.host)
	}

	w.model.takers = nil
}

// untouched reports whether a domain of somebody else is as it was made; a power cut may have come over it.
func untouched(now, before *hypervisor.Domain) bool {
	return now.Gateway == before.Gateway && now.VM == before.VM && slices.Equal(now.Spec.Differences(&before.Spec), nil)
}

// unmount takes the directory of documents away for a while: nothing may be taken for deleted.
func (w *world) unmount() {
	w.trace.add("unmount")

	if err := os.Rename(w.root, w.root+".away"); err != nil {
		panic(err)
	}

	w.quiet = true // there is nowhere to write to
	w.pass(time.Duration(w.rand.IntN(30)) * time.Second)
	w.quiet = false

	if err := os.Rename(w.root+".away", w.root); err != nil {
		panic(err)
	}

	w.trace.add("mounted again")
}
