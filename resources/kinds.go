package resources

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// typeSuffix makes a COSI type of a kind's plural.
const typeSuffix = ".gateway.dev"

// Nature says who writes a kind.
type Nature int

// Natures of a kind.
const (
	// Declared kinds are written by people: documents, senders, the API.
	Declared Nature = iota + 1
	// Derived kinds are what controllers decided from declared ones.
	Derived
	// Observed kinds are what was seen outside.
	Observed
	// Event kinds are what happened outside.
	Event
	// Command kinds are what a person or a trigger asked for beside the documents.
	Command
)

// Kind describes a resource type. Name is what stands in a document's `kind`.
type Kind struct {
	// Name as users write it (VM), Plural as the API path and tables write it (VMs).
	Name, Plural string
	// Aliases are further names that the command line accepts, in lower case.
	Aliases   []string
	Type      resource.Type
	Namespace resource.Namespace
	Nature    Nature
	// Status is the Name of the kind that holds the observed half under the same id, or empty.
	Status string
	// New returns an empty resource of this kind with every default set.
	New func(id resource.ID) resource.Resource
	// NewSpec returns a pointer to an empty specification with every default set.
	NewSpec func() any

	definition meta.ResourceDefinitionSpec
}

// Definition is COSI's description of the kind, for registration with the state.
func (k *Kind) Definition() meta.ResourceDefinitionSpec { return k.definition }

// Pointer returns the pointer to the object of this kind with the given id.
func (k *Kind) Pointer(id resource.ID) resource.Pointer {
	return resource.NewMetadata(k.Namespace, k.Type, id, resource.VersionUndefined)
}

// List returns the pointer that lists or watches all objects of the kind.
func (k *Kind) List() resource.Kind {
	return resource.NewMetadata(k.Namespace, k.Type, "", resource.VersionUndefined)
}

var kinds = map[string]*Kind{}

// Kinds returns every kind, sorted by name.
func Kinds() []*Kind {
	all := make([]*Kind, 0, len(kinds))
	for _, k := range kinds {
		all = append(all, k)
	}

	slices.SortFunc(all, func(a, b *Kind) int { return strings.Compare(a.Name, b.Name) })

	return all
}

// DeclaredKinds returns the kinds that a document may have, sorted by name.
func DeclaredKinds() []*Kind {
	return slices.DeleteFunc(Kinds(), func(k *Kind) bool { return k.Nature != Declared })
}

// KindByName returns the kind with exactly this name (VM).
func KindByName(name string) (*Kind, bool) {
	k, ok := kinds[name]

	return k, ok
}

// LookupKind returns the kind that a user means by name: any case, singular, plural or an alias.
func LookupKind(name string) (*Kind, bool) {
	for _, k := range kinds {
		if strings.EqualFold(name, k.Name) || strings.EqualFold(name, k.Plural) ||
			slices.Contains(k.Aliases, strings.ToLower(name)) {
			return k, true
		}
	}

	return nil, false
}

// KindByType returns the kind of a COSI type.
func KindByType(typ resource.Type) (*Kind, bool) {
	for _, k := range kinds {
		if k.Type == typ {
			return k, true
		}
	}

	return nil, false
}

// KindOf returns the kind of a resource of this package. It panics for any other, which is a fault of the program.
func KindOf(ptr resource.Kind) *Kind {
	k, ok := KindByType(ptr.Type())
	if !ok {
		panic(fmt.Sprintf("resource type %q is not registered", ptr.Type()))
	}

	return k
}

// column is a column that generic COSI clients print for a kind.
type column = meta.PrintColumn

// definition makes the COSI definition of a kind.
func definition(typ resource.Type, ns resource.Namespace, aliases []string, columns ...column) meta.ResourceDefinitionSpec {
	return meta.ResourceDefinitionSpec{
		Type:             typ,
		Aliases:          aliases,
		DefaultNamespace: ns,
		PrintColumns:     columns,
	}
}

// register makes a kind known to this package and to COSI's protobuf registry, which bolt and gRPC use. It runs in
// init functions only, so that a mistake stops the program at once.
func register[T typed.DeepCopyable[T], E typed.Extension](name, plural string, nature Nature, status string) struct{} {
	var ext E

	def := ext.ResourceDefinition()
	newSpec := func() *T {
		spec := defaultSpec[T]()

		return &spec
	}

	kinds[name] = &Kind{
		Name: name, Plural: plural, Aliases: def.Aliases, Type: def.Type, Namespace: def.DefaultNamespace,
		Nature: nature, Status: status, definition: def,
		NewSpec: func() any { return newSpec() },
		New:     func(id resource.ID) resource.Resource { return newResource[T, E](id) },
	}

	if err := protobuf.RegisterDynamic(def.Type, &typed.Resource[T, E]{}); err != nil {
		panic(fmt.Sprintf("error registering %s: %s", name, err))
	}

	return struct{}{}
}

// newResource returns an empty resource with every default set.
func newResource[T typed.DeepCopyable[T], E typed.Extension](id resource.ID) *typed.Resource[T, E] {
	var ext E

	def := ext.ResourceDefinition()

	return typed.NewResource[T, E](resource.NewMetadata(def.DefaultNamespace, def.Type, id, resource.VersionUndefined), defaultSpec[T]())
}

// defaultSpecs has the specification with every default set by its Go type. Resources are made to be pointed with, several
// in each reconcile: reading the tags each time took 6 % of the gateway's CPU.
var defaultSpecs sync.Map

func defaultSpec[T typed.DeepCopyable[T]]() T {
	typ := reflect.TypeFor[T]()

	if known, ok := defaultSpecs.Load(typ); ok {
		return known.(T).DeepCopy() //nolint:forcetypeassert // stored by type
	}

	var spec T

	SetDefaults(&spec)
	defaultSpecs.Store(typ, spec)

	return spec.DeepCopy()
}
