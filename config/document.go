package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"go.yaml.in/yaml/v4"

	"gateway/resources"
)

// Document is one object as it was declared.
type Document struct {
	// Resource is the object with its defaults, its labels and its annotations; it has no origin, uid or revision yet.
	Resource resource.Resource
	Kind     *resources.Kind
	File     string
	// Line and Column are where the document starts.
	Line, Column int
	// ExpectRevision is metadata.revision: the revision that the sender means to change, 0 where none was given.
	ExpectRevision int64
}

// Decode reads the documents of a file, YAML or JSON, several of them or none. It is strict: an unknown field, a wrong
// type, a duplicate key or a value out of range is a fault. The error is of type Errors and holds every fault of the file,
// each with its position; no document is returned with it, because a file that is wrong in part may be wrong in all.
// file is only what messages name.
func Decode(file string, data []byte) ([]Document, error) { return decodeText(file, data, nil) }

// DecodeAllowed is Decode, with what a policy does not allow as faults at their positions.
func DecodeAllowed(file string, data []byte, policy Policy) ([]Document, error) {
	return decodeText(file, data, &policy)
}

func decodeText(file string, data []byte, policy *Policy) ([]Document, error) {
	roots, errs := parse(file, data)

	if len(errs) == 0 && len(roots) == 1 {
		if items := itemsOf(roots[0]); items != nil {
			if roots = items; len(roots) > maxDocuments {
				return nil, Errors{{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("more than %d documents", maxDocuments)}}
			}
		}
	}

	return text{file, policy, openLine(data)}.decode(roots, errs)
}

// text is what documents are decoded from.
type text struct {
	file string
	// policy is what documents are held by; nil: by none.
	policy *Policy
	// open is the number of the last line, where it does not end: the text may have been cut off there. Otherwise 0.
	open int
}

func openLine(data []byte) int {
	data = bytes.TrimRight(data, "\x00") // the other half of a line's end in UTF-16
	if bytes.HasSuffix(data, []byte("\n")) {
		return 0
	}

	return bytes.Count(data, []byte("\n")) + 1
}

// itemsOf returns the documents of a list, as commands print one: {items: […]}; nil: it is none.
func itemsOf(root *yaml.Node) []*yaml.Node {
	if root.Kind != yaml.MappingNode || len(root.Content) != 2 || root.Content[0].Value != "items" || root.Content[1].Kind != yaml.SequenceNode {
		return nil
	}

	return root.Content[1].Content
}

// DecodeJSON reads the documents of a JSON value: one object, or an array of them. Rules and errors are those of Decode.
func DecodeJSON(file string, data []byte) ([]Document, error) {
	if fault := notJSON(file, data); fault != nil {
		return nil, Errors{*fault}
	}

	roots, errs := parse(file, data)
	if len(errs) == 0 && len(roots) == 1 && roots[0].Kind == yaml.SequenceNode {
		roots = roots[0].Content
	}

	if len(roots) > maxDocuments {
		return nil, Errors{{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("more than %d documents", maxDocuments)}}
	}

	return text{file, nil, 0}.decode(roots, errs)
}

// notJSON returns where the text stops being a JSON object or array; nil when it is one. Without it the rest of YAML,
// which is more, would be accepted too.
func notJSON(file string, data []byte) *Error {
	data = bytes.TrimPrefix(data, bomUTF8)

	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return &Error{File: file, Line: 1, Column: 1, Message: "a JSON object, or an array of objects, is needed"}
	}

	var (
		raw    json.RawMessage
		syntax *json.SyntaxError
	)

	if err := json.Unmarshal(data, &raw); errors.As(err, &syntax) {
		line, column := position(data, max(int(syntax.Offset)-1, 0))

		return &Error{File: file, Line: line, Column: column, Message: syntax.Error()}
	}

	return nil
}

func (t text) decode(roots []*yaml.Node, errs Errors) ([]Document, error) {
	documents := make([]Document, 0, len(roots))
	lines := map[string]int{}

	for _, root := range roots {
		if len(errs) > maxErrors {
			break
		}

		document, faults := t.decodeOne(root)
		errs = append(errs, faults...)

		if document.Kind != nil {
			if document.Resource.Metadata().ID() == "" {
				continue
			}

			if object := document.Kind.Name + "/" + document.Resource.Metadata().ID(); lines[object] > 0 {
				errs = append(errs, Error{File: t.file, Line: document.Line, Column: document.Column,
					Message: fmt.Sprintf("%s is already declared in line %d", object, lines[object])})
			} else {
				lines[object] = document.Line
			}

			documents = append(documents, document)
		}
	}

	if err := errs.err(); err != nil {
		return nil, err
	}

	return documents, nil
}

// metadata is what a document may say about its object.
type metadata struct {
	Name        string            `json:"name" doc:"RFC 1123 label: 1 to 63 of a-z, 0-9 and '-'"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Revision    int64             `json:"revision,omitempty" doc:"when given, the revision that the object must have now"`
}

// envelope is the outer part of a document, before its kind is known.
type envelope struct {
	apiVersion, kind, metadata, spec *yaml.Node
}

// envelopeFields are the fields of a document, as messages list them.
var envelopeFields = []string{"apiVersion", "kind", "metadata", "spec"}

// decodeOne decodes one document. The returned document has no Kind when there is nothing to go on with.
func (t text) decodeOne(root *yaml.Node) (Document, Errors) {
	d := newDecoder(t.file)
	d.open = t.open

	if root.Kind != yaml.MappingNode {
		d.fail(root, "", "a document is a mapping with apiVersion, kind, metadata and spec, not a %s", describe(root))

		return Document{}, d.errs
	}

	outer := d.envelope(root)
	d.apiVersion(root, outer.apiVersion)

	kind := d.kind(root, outer.kind)
	md := d.metadata(root, outer.metadata)

	if kind == nil {
		return Document{}, d.errs
	}

	r := kind.New(md.Name)
	resources.SetLabels(r.Metadata(), md.Labels)
	resources.SetUserAnnotations(r.Metadata(), md.Annotations)

	if outer.spec != nil {
		d.value(outer.spec, reflect.ValueOf(r.Spec()).Elem(), "spec")
	}

	// The gateway's own annotations are no part of what Validate sees as the user's, and are refused here.
	d.fieldErrors(root, resources.ValidateAnnotations("metadata.annotations", md.Annotations))
	d.fieldErrors(root, resources.Validate(r))

	if t.policy != nil {
		d.fieldErrors(root, t.policy.Check(r))
	}

	return Document{Resource: r, Kind: kind, File: t.file, Line: root.Line, Column: root.Column, ExpectRevision: md.Revision}, d.errs
}

// envelope sorts the fields of a document.
func (d *decoder) envelope(root *yaml.Node) (outer envelope) {
	targets := map[string]**yaml.Node{"apiVersion": &outer.apiVersion, "kind": &outer.kind, "metadata": &outer.metadata, "spec": &outer.spec}

	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]

		switch target, ok := targets[key.Value]; {
		case key.Value == "status": // the gateway's, as `get -o yaml` shows it
		case key.Value == "spec" && emptied(value) && key.Line != d.open: // the empty one
		case !ok:
			d.unknown(key, "", envelopeFields)
		case !d.absent(key, value, key.Value):
			*target = value
			d.marks[key.Value] = mark{key.Line, key.Column}
		}
	}

	return outer
}

// emptied reports whether a value was left out behind its key.
func emptied(value *yaml.Node) bool {
	return scalarTag(value) == tagNull && value.Style&yaml.TaggedStyle == 0
}

func (d *decoder) apiVersion(root, n *yaml.Node) {
	switch {
	case d.faulty["apiVersion"]:
	case n == nil:
		d.fail(root, "", "apiVersion is required: write apiVersion: %s", resources.APIVersion)
	case scalarTag(n) != tagString || n.Value != resources.APIVersion:
		d.fail(n, "apiVersion", "%.64q is not known: write %s", n.Value, resources.APIVersion)
	}
}

// kind returns the declared kind that the document names, nil after a fault.
func (d *decoder) kind(root, n *yaml.Node) *resources.Kind {
	if n != nil {
		if k, ok := resources.KindByName(n.Value); ok && k.Nature == resources.Declared {
			return k
		}
	}

	declared := resources.DeclaredKinds()
	names := make([]string, len(declared))

	for i, k := range declared {
		names[i] = k.Name
	}

	switch {
	case d.faulty["kind"]:
		return nil
	case n == nil:
		d.fail(root, "", "kind is required: one of %s", strings.Join(names, ", "))

		return nil
	case n.Kind != yaml.ScalarNode:
		d.mismatch(n, "kind", "string")

		return nil
	}

	hint := "use one of " + strings.Join(names, ", ")
	if near := nearest(n.Value, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}

	d.fail(n, "kind", "%.64q can't be declared: %s", n.Value, hint)

	return nil
}

// readOnly are the fields of metadata that `gateway get` shows and nobody declares. They are passed over, so that what was
// shown can be applied again.
var readOnly = []string{"uid", "created", "origin", "deleting"}

func (d *decoder) metadata(root, n *yaml.Node) (md metadata) {
	if n == nil {
		if !d.faulty["metadata"] {
			d.fail(root, "metadata", "metadata with a name is required")
		}

		return md
	}

	if n.Kind == yaml.MappingNode {
		kept := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}

		for i := 0; i < len(n.Content); i += 2 {
			if !slices.Contains(readOnly, n.Content[i].Value) {
				kept.Content = append(kept.Content, n.Content[i], n.Content[i+1])
			}
		}

		n = kept
	}

	d.value(n, reflect.ValueOf(&md).Elem(), "metadata")

	if md.Revision < 0 {
		d.fail(n, "metadata.revision", "%d is not a revision", md.Revision)
	}

	return md
}

// fieldErrors notes faults that were found by path, at the position of the path or of what is nearest above it. Faults
// that only follow from one that is noted already are left out.
func (d *decoder) fieldErrors(root *yaml.Node, faults resources.FieldErrors) {
	for _, f := range faults {
		if d.full() {
			return
		}

		if d.follows(f.Path) {
			continue
		}

		at := mark{root.Line, root.Column}

		for path := f.Path; path != ""; path = parent(path) {
			if m, ok := d.marks[path]; ok {
				at = m

				break
			}
		}

		d.errs = append(d.errs, Error{File: d.file, Line: at.line, Column: at.column, Message: prefixed(f.Path, f.Message)})
	}
}

// follows reports whether something at, above or below path has a fault already.
func (d *decoder) follows(path string) bool {
	for p := path; p != ""; p = parent(p) {
		if d.faulty[p] {
			return true
		}
	}

	for p := range d.faulty {
		if strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[") {
			return true
		}
	}

	return false
}

// parent returns the path without its last part: spec.disks[0].size, spec.disks[0], spec.disks, spec.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}
