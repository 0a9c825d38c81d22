package vm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"gateway/hypervisor"
	"gateway/resources"
)

// volumeName is the name of a disk's volume, unique on a host.
func volumeName(vm, disk string) string { return hypervisor.VolumeName(vm, disk) }

// isVolume reports whether the gateway makes the disk, rather than using a file that is there.
func isVolume(d *resources.Disk) bool { return d.Path == "" }

// ensureVolumes makes the volumes of the VM's disks and finds their paths. A converged VM's are not looked at again until
// it is started: the domain has the paths.
func (p *pass) ensureVolumes(ctx context.Context) (bool, error) {
	if err := p.adoptVolumes(ctx); err != nil {
		return false, err
	}

	p.condition(resources.ConditionImageReady, resources.ConditionTrue, p.imageReason(), "")

	for i := range p.spec.Disks {
		d := &p.spec.Disks[i]
		if !isVolume(d) {
			continue
		}

		if known := orElse(p.status.AdoptedDisks[d.Name], p.knownPath(d.Name)); known != "" {
			p.disks[d.Name] = known

			continue
		}

		if err := p.ensureVolume(ctx, d); err != nil {
			return false, err
		}
	}

	if p.domain == nil && p.blocked != nil {
		p.converged(resources.ConditionFalse, p.blocked.Reason, p.blocked.Message)

		return false, nil
	}

	return true, nil
}

func (p *pass) imageReason() string {
	if slices.ContainsFunc(p.spec.Disks, func(d resources.Disk) bool { return d.Image != "" }) {
		return resources.ReasonImageReady
	}

	return resources.ReasonNotNeeded
}

// knownPath returns the path of a volume that need not be looked at: the domain has it, it was made for this revision, and
// no start is near.
func (p *pass) knownPath(disk string) string {
	if p.domain == nil || p.domain.Revision != p.revision() || p.overridden("disks") ||
		!slices.Contains(p.status.DisksMade, disk) || isOff(p.domain) && p.spec.Power != resources.PowerStopped {
		return ""
	}

	for _, d := range p.domain.Spec.Disks {
		if d.Name == disk && !d.Foreign {
			return d.Path
		}
	}

	return ""
}

// ensureVolume makes one volume, from its image where it has one. What can't be made now blocks the definition.
func (p *pass) ensureVolume(ctx context.Context, d *resources.Disk) error {
	volume := hypervisor.VolumeSpec{
		Name: volumeName(p.id, d.Name), Size: d.Size,
		MustExist: slices.Contains(p.status.DisksMade, d.Name),
	}

	if d.Image != "" && !volume.MustExist {
		image, err := p.image(ctx, d.Image)
		if err != nil || image == nil {
			return err
		}

		if d.Size != 0 && d.Size < image.VirtualSize {
			p.imageMissing(resources.ReasonInvalid, fmt.Sprintf("disk %s is declared with %s, and its image %s has %s: a disk only grows",
				d.Name, d.Size, d.Image, image.VirtualSize))

			return nil
		}

		volume.Backing, volume.BackingFormat = image.Path, orElse(image.Format, resources.FormatOf(image.Path))
		volume.Copy = d.Clone == resources.CloneFull
	}

	err := p.act(ctx, "make volume "+volume.Name, func() (changed bool, err error) {
		p.disks[d.Name], changed, err = p.driver.EnsureVolume(ctx, volume)

		return changed, err
	})

	if volume.MustExist && errors.Is(err, hypervisor.ErrNotFound) {
		delete(p.disks, d.Name)
		p.block(resources.ReasonDiskMissing, fmt.Sprintf("volume %s held data and is not on host %s any more", volume.Name, p.host()))
		p.after(diskRetry)

		return nil
	}

	if err != nil {
		return err
	}

	if !volume.MustExist {
		p.status.DisksMade = append(slices.Clone(p.status.DisksMade), d.Name)
	}

	return nil
}

// define makes the domain's definition what was declared. A definition without a difference is not touched.
func (p *pass) define(ctx context.Context) (bool, error) {
	if p.blocked != nil {
		return p.domain != nil, nil
	}

	wanted := p.domainSpec()
	normal := wanted.Normalised()
	what := "define"

	if p.domain != nil {
		differences := normal.Differences(&p.domain.Spec)
		if p.isOurs(p.domain) && len(differences) == 0 && !p.domain.Transient && !p.insist() {
			return true, nil
		}

		what = redefinition(&p.domain.Spec, &normal, differences)
		wanted.Insist = p.isOurs(p.domain) // a domain that is taken over is changed in nothing else
	} else {
		wanted.Last = p.status.Definition
	}

	created, err := p.defineAs(ctx, what, wanted)
	if err != nil {
		return false, err
	}

	if created {
		// A domain that was just made is off. It is read at the end of the pass anyway, once it was started.
		p.see(&hypervisor.Domain{
			Name: wanted.Name, UUID: wanted.UUID, State: resources.StateStopped, Gateway: p.c.options.GatewayID, VM: p.id,
			Revision: wanted.Revision, Spec: wanted.Normalised(),
		})
	} else if p.acted || p.domain == nil {
		if err := p.look(ctx); err != nil {
			return false, err
		}
	}

	what, _ = p.behind()
	p.c.insistence.tried(p.id, what, p.live, p.tick)

	if p.domain == nil {
		return false, fmt.Errorf("the domain of VM %q vanished from host %q after it was defined: %w", p.id, p.host(), hypervisor.ErrBusy)
	}

	return true, nil
}

// defineAs defines the domain, and notes what was done to a running one.
func (p *pass) defineAs(ctx context.Context, what string, wanted hypervisor.DomainSpec) (created bool, err error) {
	var result hypervisor.DefineResult

	lacking := p.domain != nil && p.domain.Transient // a definition that is the same as before was missing all the same

	err = p.act(ctx, what, func() (bool, error) {
		result, err = p.driver.DefineDomain(ctx, wanted)

		return result.Created || len(result.Changed) > 0 || lacking, err
	})
	if err != nil {
		return false, err
	}

	if result.Anew != "" {
		p.logger.Warn("what was not declared of the domain is lost", zap.String("host", p.host()), zap.String("reason", result.Anew))
	}

	if len(result.Live) > 0 {
		p.mends = p.c.insistence.mends(p.id)
		err = p.act(ctx, followUp(result.Live), func() (bool, error) { return true, nil })
	}

	p.live = &result

	return result.Created, err
}

// domainSpec is the definition that the VM's document asks for.
func (p *pass) domainSpec() hypervisor.DomainSpec {
	s := p.spec
	d := hypervisor.DomainSpec{
		Name: s.DomainName(p.id), UUID: p.uuid(), VM: p.id, Revision: p.revision(), Description: s.Description,
		CPUs: s.CPUs, MaxCPUs: max(s.MaxCPUs, s.CPUs), Memory: s.Memory, MaxMemory: max(s.MaxMemory, s.Memory),
		Firmware: s.Firmware, Boot: s.Boot, Graphics: s.Graphics, GuestAgent: s.GuestAgent, Adopt: s.Adopt != nil,
	}

	if s.Adopt != nil {
		d.AdoptFrom = s.Adopt.Gateway

		// A text that no document can say stays as it is.
		if d.Description == "" && p.domain != nil {
			d.Description = p.domain.Spec.Description
		}
	}

	if p.cramped() {
		p.keepSize(&d)
	}

	for i := range s.Disks {
		disk := &s.Disks[i]
		if isVolume(disk) {
			d.Disks = append(d.Disks, hypervisor.DomainDisk{Name: disk.Name, Path: p.disks[disk.Name], Format: "qcow2"})

			continue
		}

		format := orElse(disk.Format, resources.FormatOf(disk.Path))
		d.Disks = append(d.Disks, hypervisor.DomainDisk{
			Name: disk.Name, Path: disk.Path, Format: format, ReadOnly: format == "iso", CDROM: format == "iso",
		})
	}

	if seed := p.disks[hypervisor.SeedDisk]; s.CloudInit != nil && seed != "" {
		d.Disks = append(d.Disks, hypervisor.DomainDisk{Name: hypervisor.SeedDisk, Path: seed, Format: "iso", ReadOnly: true, CDROM: true})
	}

	if len(s.Interfaces) > 0 {
		for _, b := range p.network.TypedSpec().Interfaces {
			d.Interfaces = append(d.Interfaces, hypervisor.DomainInterface{MAC: b.MAC, Network: b.LibvirtNetwork, Bridge: b.Bridge})
		}
	}

	return d
}
