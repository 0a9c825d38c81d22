package store

import (
	"fmt"
	"path"
	"slices"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

// kindVM is the one kind that senders may declare without being named in a rule.
const kindVM = "VM"

// permitted checks whether the origin may declare objects of this kind and name at all.
func permitted(kind *resources.Kind, md *resource.Metadata, origin resources.Origin, rule *resources.ApplyRule) error {
	if rule == nil {
		if origin.IsOperator() || kind.Name == kindVM {
			return nil
		}

		return refuse(resources.ReasonPolicyRefused, md, kind,
			"%s may not declare a %s: only document directories and operators may, and an apply that names it in kinds", origin, kind.Name)
	}

	if !slices.Contains(rule.Kinds, kind.Name) {
		return refuse(resources.ReasonPolicyRefused, md, kind, "%s may not declare a %s: its apply.kinds are %q", origin, kind.Name, rule.Kinds)
	}

	// The default of names is *, and a rule that was made without defaults means it too.
	if rule.Names == "" {
		return nil
	}

	matches, err := path.Match(rule.Names, md.ID())
	if err != nil {
		return refuse(resources.ReasonPolicyRefused, md, kind, "the apply.names %q of %s is not a pattern", rule.Names, origin)
	}

	if !matches {
		return refuse(resources.ReasonPolicyRefused, md, kind, "%s may not declare this name: its apply.names is %q", origin, rule.Names)
	}

	return nil
}

// ownerOf returns who declared an object. What the embedding program wrote into the state by itself counts as declared
// through the API: both are the operator.
func ownerOf(md *resource.Metadata) resources.Origin {
	if o := resources.OriginOf(md); !o.IsZero() {
		return o
	}

	return resources.Origin{Source: resources.OriginAPI}
}

// protected reports whether the object refuses deletion.
func protected(spec any) bool {
	vm, ok := spec.(*resources.VMConfigSpec)

	return ok && vm.Protect
}

// immutable finds changes that no object goes through: they would lose data, or leave VMs on a network that is no longer there.
func immutable(current, declared any) (errs resources.FieldErrors) {
	switch now := declared.(type) {
	case *resources.VMConfigSpec:
		was, ok := current.(*resources.VMConfigSpec)
		if ok {
			immutableDisks(was.Disks, now.Disks, &errs)
		}
	case *resources.NetworkSpec:
		was, ok := current.(*resources.NetworkSpec)
		if !ok {
			break
		}

		if was.Mode != now.Mode {
			errs.Add("spec.mode", "can't be changed from %q to %q: remove the network and declare another", was.Mode, now.Mode)
		}

		if was.Subnet != now.Subnet {
			errs.Add("spec.subnet", "can't be changed from %q to %q: remove the network and declare another", was.Subnet, now.Subnet)
		}
	}

	return errs
}

func immutableDisks(was, now []resources.Disk, errs *resources.FieldErrors) {
	for i, d := range now {
		at := slices.IndexFunc(was, func(o resources.Disk) bool { return o.Name == d.Name })
		if at < 0 {
			continue
		}

		old, field := was[at], fmt.Sprintf("spec.disks[%d]", i)

		if d.Image != old.Image {
			errs.Add(field+".image", "can't be changed from %q to %q: the disk holds data; declare a disk of another name", old.Image, d.Image)
		}

		if (d.Clone == resources.CloneFull) != (old.Clone == resources.CloneFull) {
			errs.Add(field+".clone", "can't be changed: the disk is made already")
		}

		if d.Size < old.Size {
			errs.Add(field+".size", "can't be changed from %s to %s: a disk only grows", old.Size, d.Size)
		}
	}
}
