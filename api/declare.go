package api

import (
	"errors"
	"fmt"
	"net/http"

	"gateway/config"
	"gateway/resources"
	"gateway/store"
)

// Applied is the answer to an apply.
type Applied struct {
	Objects []resources.AppliedObject `json:"objects"`
}

var apiOrigin = resources.Origin{Source: resources.OriginAPI}

// apply declares the documents of a body, in their order, hosts and networks first. All of a body that can't be decoded is
// refused; an object that is refused does not stop the others, and its outcome says why.
func (o *operations) apply(w http.ResponseWriter, r *http.Request) error {
	data, err := readAll(r)
	if err != nil {
		return err
	}

	file := r.URL.Query().Get("file")
	if file == "" {
		file = "-"
	}

	documents, err := config.Decode(file, data)
	if err != nil {
		return err
	}

	answer := Applied{Objects: make([]resources.AppliedObject, 0, len(documents))}

	for _, d := range inOrder(documents) {
		if err := o.Pacer.Wait(r.Context()); err != nil {
			return fmt.Errorf("the gateway is busy: %w", err)
		}

		done, err := o.Admission.Apply(r.Context(), o.writer, store.Change{
			Object: d.Resource, Origin: apiOrigin, Cause: "api", ExpectRevision: d.ExpectRevision, DryRun: r.URL.Query().Get("dryRun") == "true",
		})

		// What became of an object that was refused is in its outcome.
		if refused, ok := errors.AsType[*store.AdmissionError](err); ok {
			done.Revision = refused.Revision
		} else if err != nil {
			return err
		}

		done.Line = d.Line
		answer.Objects = append(answer.Objects, done)
	}

	return o.done(w, r, "apply", file, answer)
}

// inOrder puts what others need before what needs it.
func inOrder(documents []config.Document) []config.Document {
	ordered := make([]config.Document, 0, len(documents))

	for _, first := range []bool{true, false} {
		for _, d := range documents {
			needed := d.Kind.Name == "Host" || d.Kind.Name == "Network" || d.Kind.Name == "Image"
			if needed == first {
				ordered = append(ordered, d)
			}
		}
	}

	return ordered
}

// delete takes an object away. One that a file declares is refused, unless forced.
func (o *operations) delete(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r.PathValue("kind"))
	if err != nil {
		return err
	}

	name := r.PathValue("name")
	if _, err := o.one(r.Context(), kind, name); err != nil {
		return err
	}

	if kind.Nature != resources.Declared {
		return usage("a %s is not declared by anybody and can't be deleted", kind.Name)
	}

	force := r.URL.Query().Get("force") == "true"
	err = o.Admission.Delete(r.Context(), o.writer, store.Removal{Kind: kind, Name: name, Origin: apiOrigin, Cause: "api", Force: force})

	if err != nil {
		return err
	}

	command := "delete"
	if force {
		command = "delete --force"
	}

	return o.done(w, r, command, kind.Name+"/"+name, map[string]string{"kind": kind.Name, "name": name})
}
