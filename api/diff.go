package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/config"
	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// Planner says what would be done to the domain of a VM that is declared otherwise: host is where it is, empty for nowhere.
// The error wraps hypervisor.ErrUnreachable where the host can't be asked.
type Planner interface {
	PlanVM(ctx context.Context, desired *resources.VMConfig) (host string, plan hypervisor.DomainPlan, err error)
}

// DiffRequest asks what documents would change.
type DiffRequest struct {
	Files []DiffFile `json:"files"`
	// Under are the files and directories, absolute, that were named: what is declared by a file there and is not in Files
	// would be deleted.
	Under []string `json:"under,omitempty"`
	// Root is the documents directory that a single directory in Under, or the directory of each file in it, stands for;
	// empty: each is itself.
	Root string `json:"root,omitempty"`
	// API declares the documents as an operator does without a file, wherever they are.
	API bool `json:"api,omitempty"`
}

// DiffFile is one file of documents. Its name is absolute, or - for what is no file.
type DiffFile struct {
	Name string `json:"name"`
	Data string `json:"data"`
}

// Actions of an ObjectDiff.
const (
	DiffCreate  = "create"
	DiffChange  = "change"
	DiffDelete  = "delete"
	DiffRefused = "refused"
	DiffNone    = "none"
)

// Effects of a FieldDiff. Live is in force without a restart.
const (
	EffectLive    = "live"
	EffectRestart = "restart"
	EffectRefused = "refused"
)

// Diff is what documents would change, object by object: those that would be declared in the order in which they would be,
// then those that would be deleted.
type Diff struct {
	Objects []ObjectDiff `json:"objects"`
	// Notes are about what could not be compared.
	Notes []string `json:"notes,omitempty"`
}

// ObjectDiff is what would become of one object.
type ObjectDiff struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Action is create, change, delete, refused or none.
	Action string `json:"action"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	// Host and State are of a VM: where it is, and what its domain is there.
	Host  string `json:"host,omitempty"`
	State string `json:"state,omitempty"`
	// Reason and Message say why it is refused.
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Fields  []FieldDiff `json:"fields,omitempty"`
	// Steps are what a deletion does, in order, and what it leaves.
	Steps []string `json:"steps,omitempty"`
	// Notes are about this object.
	Notes []string `json:"notes,omitempty"`
}

// FieldDiff is one field that would be another one.
type FieldDiff struct {
	// Path is that of the document, with the elements of lists by their names: spec.disks[root].size.
	Path string `json:"path"`
	// From and To are the values; nil: there is none.
	From any `json:"from"`
	To   any `json:"to"`
	// Effect is live, restart or refused; Why explains it where there is more to say.
	Effect string `json:"effect"`
	Why    string `json:"why,omitempty"`
	// Drift reports that the document does not change the field: somebody else did, on the hypervisor.
	Drift bool `json:"drift,omitempty"`
}

// maxDiff bounds the body of a diff: a directory is compared as a whole, since what is missing in it counts too.
const maxDiff = 64 << 20

func (o *operations) diff(w http.ResponseWriter, r *http.Request) error {
	var request DiffRequest
	if err := decode(r, &request); err != nil {
		return err
	}

	answer, err := o.Diff(r.Context(), request)
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, answer)

	return nil
}

// Diff returns what would change if the documents were declared, and changes nothing.
func (o *Operations) Diff(ctx context.Context, request DiffRequest) (Diff, error) {
	d := &differ{Operations: o, request: &request, declared: map[string]resources.Origin{}, counts: map[string]*rootCounts{}}
	if err := d.prepare(ctx); err != nil {
		return Diff{}, err
	}

	answer := Diff{Objects: make([]ObjectDiff, 0, len(d.documents))}

	for _, document := range inOrder(d.documents) {
		object, err := d.object(ctx, document)
		if err != nil {
			return answer, err
		}

		answer.Objects = append(answer.Objects, object)
	}

	gone, err := d.gone(ctx)
	answer.Objects = append(answer.Objects, gone...)
	d.noteMassDeletions()
	answer.Notes = d.notes

	return answer, err
}

// differ compares the documents of one request.
type differ struct {
	*Operations

	request   *DiffRequest
	roots     []string
	documents []config.Document
	// byFile is as whose the documents of a file count, by its name.
	byFile map[string]resources.Origin
	// declared are who declares each object of the request, by KIND/NAME.
	declared map[string]resources.Origin
	// under is what of the roots the request stands for.
	under []string
	// counts are by documents directory.
	counts map[string]*rootCounts
	notes  []string
}

// prepare decodes the documents and finds out as whose they count.
func (d *differ) prepare(ctx context.Context) error {
	roots, err := d.state.List(ctx, resources.NewFileRoot("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the documents directories: %w", err)
	}

	for _, r := range roots.Items {
		d.roots = append(d.roots, r.Spec().(*resources.FileRootSpec).Path) //nolint:forcetypeassert // one type a kind
	}

	if d.request.Root != "" && d.rootOf(d.request.Root) == "" {
		return usage("%s is no documents directory of this gateway, nor below one: they are %s", d.request.Root, strings.Join(d.roots, ", "))
	}

	d.byFile = map[string]resources.Origin{}

	var faults config.Errors

	for _, f := range d.request.Files {
		documents, err := config.Decode(f.Name, []byte(f.Data))
		if found, ok := errors.AsType[config.Errors](err); ok {
			faults = append(faults, found...)
		} else if err != nil {
			return err
		}

		d.byFile[f.Name] = d.originOf(f.Name)
		d.documents = append(d.documents, documents...)

		for _, document := range documents {
			d.declared[objectOf(document)] = d.byFile[f.Name]
		}
	}

	if len(faults) > 0 {
		return faults
	}

	d.scope()

	return nil
}

func objectOf(d config.Document) string { return d.Kind.Name + "/" + d.Resource.Metadata().ID() }

// scope finds what of the documents directories the request stands for.
func (d *differ) scope() {
	if d.request.API {
		return
	}

	for _, path := range d.request.Under {
		if mapped := d.mapped(path); d.rootOf(mapped) != "" {
			d.under = append(d.under, mapped)
		} else {
			d.notes = append(d.notes, fmt.Sprintf("%s is not below a documents directory: what it no longer declares is not looked for", path))
		}
	}
}

// mapped is where a path is in the documents directory that the request names.
func (d *differ) mapped(path string) string {
	if d.request.Root == "" {
		return path
	}

	for _, under := range d.request.Under {
		if rest, inside := strings.CutPrefix(path, under); inside && (rest == "" || rest[0] == filepath.Separator) {
			if rest == "" && !d.isDirectory(under) {
				rest = string(filepath.Separator) + filepath.Base(path)
			}

			return filepath.Clean(d.request.Root + rest)
		}
	}

	return path
}

// isDirectory reports whether what was named is a directory, which is no file of the request itself.
func (d *differ) isDirectory(under string) bool {
	for _, f := range d.request.Files {
		if f.Name == under {
			return false
		}
	}

	return true
}

// rootOf is the documents directory that a path is in; empty: none.
func (d *differ) rootOf(path string) string {
	for _, root := range d.roots {
		if within(path, root) {
			return root
		}
	}

	return ""
}

func within(path, directory string) bool {
	rest, inside := strings.CutPrefix(path, strings.TrimSuffix(directory, "/"))

	return inside && (rest == "" || rest[0] == filepath.Separator)
}

// originOf is who declares what is in a file.
func (d *differ) originOf(file string) resources.Origin {
	mapped := d.mapped(file)
	if root := d.rootOf(mapped); root != "" && !d.request.API && filepath.IsAbs(mapped) {
		return resources.Origin{Source: resources.OriginFile, Name: mapped, Root: root}
	}

	return apiOrigin
}

// object compares one document with what is declared and with what is on the hypervisor.
func (d *differ) object(ctx context.Context, document config.Document) (ObjectDiff, error) {
	name := document.Resource.Metadata().ID()
	diff := ObjectDiff{Kind: document.Kind.Name, Name: name, File: document.File, Line: document.Line}

	current, err := d.state.Get(ctx, document.Kind.Pointer(name))
	if state.IsNotFoundError(err) {
		current, err = nil, nil
	}

	if err != nil {
		return diff, fmt.Errorf("error reading %s/%s: %w", diff.Kind, name, err)
	}

	done, err := d.Admission.Apply(ctx, d.writer, store.Change{
		Object: document.Resource, Origin: d.byFile[document.File], ExpectRevision: document.ExpectRevision,
		TakeFrom: d.givenUpBy(current, document), DryRun: true,
	})

	refused, isRefused := errors.AsType[*store.AdmissionError](err)
	if err != nil && !isRefused {
		return diff, err
	}

	if diff.Fields, err = fieldsOf(current, document.Resource); err != nil {
		return diff, err
	}

	switch {
	case isRefused:
		diff.Action, diff.Reason, diff.Message = DiffRefused, refused.Reason, refused.Message
		markRefused(diff.Fields, refused, document.Resource)

		return diff, nil
	case done.Outcome == resources.OutcomeCreated:
		diff.Action = DiffCreate
		d.count(d.byFile[document.File]).total++

		return diff, nil
	case len(diff.Fields) > 0:
		diff.Action = DiffChange
	default:
		diff.Action = DiffNone
	}

	if now, before := d.byFile[document.File], resources.OriginOf(current.Metadata()); now != before {
		diff.Notes = append(diff.Notes, fmt.Sprintf("is declared by %s instead of %s", now, before))
	}

	if desired, ok := document.Resource.(*resources.VMConfig); ok {
		return diff, d.vm(ctx, &diff, current, desired)
	}

	return diff, nil
}

// givenUpBy is the file that no longer declares the object, when this document takes it over under the same root.
func (d *differ) givenUpBy(current resource.Resource, document config.Document) resources.Origin {
	if current == nil {
		return resources.Origin{}
	}

	owner, now := resources.OriginOf(current.Metadata()), d.byFile[document.File]
	if owner.Source != resources.OriginFile || owner.Root != now.Root || owner.Same(now) || !d.covers(owner.Name) {
		return resources.Origin{}
	}

	return owner
}

// covers reports whether a file of a documents directory is among what the request stands for.
func (d *differ) covers(file string) bool {
	for _, under := range d.under {
		if within(file, under) {
			return true
		}
	}

	return false
}
