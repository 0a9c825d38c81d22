package api

import (
	"net/http"

	"gateway/config"
	"gateway/resources"
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

	answer, err := o.Apply(r.Context(), callerOf(r), file, documents, r.URL.Query().Get("dryRun") == "true")
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, answer)

	return nil
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
	answer, err := o.Delete(r.Context(), callerOf(r), r.PathValue("kind"), r.PathValue("name"), r.URL.Query().Get("force") == "true")
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, answer)

	return nil
}
