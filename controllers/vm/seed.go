package vm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"time"

	"gateway/controllers/vm/nocloud"
	"gateway/hypervisor"
	"gateway/resources"
)

// seedRetry is how often a file of secrets that can't be read is tried again: its return has no event.
const seedRetry = 30 * time.Second

// ensureSeed makes the volume that cloud-init reads, and finds its path. It is made anew, under another name, when what is in
// it changes: a guest that runs keeps the one that it booted with.
func (p *pass) ensureSeed(ctx context.Context) (bool, error) {
	if p.spec.CloudInit == nil || p.blocked != nil {
		return true, nil
	}

	seed, err := p.seed(ctx)

	var name string
	if err == nil {
		name, err = p.seedName(seed)
	}

	if err != nil {
		p.block(resources.ReasonUnreadable, "spec.cloudInit: "+err.Error())
		p.after(seedRetry)

		if p.domain == nil {
			p.converged(resources.ConditionFalse, p.blocked.Reason, p.blocked.Message)
		}

		return p.domain != nil, nil
	}

	if known := p.knownSeed(name); known != "" {
		p.disks[hypervisor.SeedDisk] = known

		return true, nil
	}

	// Written down first: whatever happens, it is removed again.
	if !slices.Contains(p.status.Seeds, name) {
		p.status.Seeds = append(slices.Clone(p.status.Seeds), name)
		if err := p.flush(ctx); err != nil {
			return false, err
		}
	}

	content, err := seed.ISO()
	if err != nil {
		return false, fmt.Errorf("error making the seed of VM %q: %w", p.id, err)
	}

	err = p.act(ctx, "make volume "+name, func() (changed bool, err error) {
		p.disks[hypervisor.SeedDisk], changed, err = p.driver.EnsureVolume(ctx, hypervisor.VolumeSpec{Name: name, Content: content})

		return changed, err
	})

	return err == nil, err
}

func (p *pass) seedName(seed *nocloud.Seed) (string, error) {
	digest, err := seed.Digest()

	return hypervisor.SeedName(p.id, digest), err
}

// seed returns what the guest is to be told.
func (p *pass) seed(ctx context.Context) (*nocloud.Seed, error) {
	c := p.spec.CloudInit
	// The same VM is the same instance, whatever changes: cloud-init does not do again what it does once.
	seed := &nocloud.Seed{Instance: hypervisor.DomainUUID(p.c.options.GatewayID, p.id), Hostname: p.id, UserData: c.UserData, SSHKeys: c.SSHKeys}

	if c.UserDataFile != "" {
		if p.c.options.ReadSecret == nil {
			return nil, errors.New("userDataFile: files of secrets are not read here")
		}

		content, err := p.c.options.ReadSecret(c.UserDataFile)
		if err != nil {
			return nil, fmt.Errorf("userDataFile: %w", err)
		}

		seed.UserData = string(content)
	}

	if p.network == nil || !p.networkReady {
		return seed, nil
	}

	for n, b := range p.network.TypedSpec().Interfaces {
		if n >= len(p.spec.Interfaces) {
			break
		}

		nic, err := p.seedInterface(ctx, &p.spec.Interfaces[n], b.MAC)
		if err != nil {
			return nil, err
		}

		seed.Interfaces = append(seed.Interfaces, nic)
	}

	return seed, nil
}

// seedInterface is an interface as the guest is to configure it: statically where the document gives it an address and the
// network has a subnet, else by DHCP.
func (p *pass) seedInterface(ctx context.Context, i *resources.Interface, mac string) (nocloud.Interface, error) {
	nic := nocloud.Interface{MAC: mac}

	address, err := netip.ParseAddr(i.Address)
	if err != nil {
		return nic, nil //nolint:nilerr // none is declared
	}

	network, err := get[*resources.Network](ctx, p, resources.NewNetwork(i.Network).Metadata())
	if err != nil || network == nil || !network.TypedSpec().Prefix().IsValid() {
		return nic, err
	}

	spec := network.TypedSpec()
	nic.Address = netip.PrefixFrom(address, spec.Prefix().Bits())

	// The host is a router for networks that have one, and answers for the names of both kinds.
	if spec.Mode == resources.NetworkNAT {
		nic.Router = spec.Gateway()
	}

	if spec.Mode == resources.NetworkNAT || spec.Mode == resources.NetworkIsolated {
		nic.Nameserver, nic.Domain = spec.Gateway(), spec.Domain
	}

	return nic, nil
}

// knownSeed returns the path of a seed that need not be looked at: the domain has it, and no start is near.
func (p *pass) knownSeed(name string) string {
	if p.domain == nil || !slices.Contains(p.status.Seeds, name) || isOff(p.domain) && p.spec.Power != resources.PowerStopped {
		return ""
	}

	for _, d := range p.domain.Spec.Disks {
		if d.Name == hypervisor.SeedDisk && !d.Foreign && path.Base(d.Path) == name {
			return d.Path
		}
	}

	return ""
}

// dropSeeds removes the seeds that neither the definition nor the running domain has any more.
func (p *pass) dropSeeds(ctx context.Context) (bool, error) {
	current := path.Base(p.disks[hypervisor.SeedDisk])
	if p.blocked != nil || len(p.status.Seeds) == 0 || len(p.status.Seeds) == 1 && p.status.Seeds[0] == current {
		return true, nil
	}

	if p.acted && p.domain != nil {
		if err := p.look(ctx); err != nil {
			return false, err
		}
	}

	if p.domain != nil && slices.Contains(p.domain.RestartRequired, hypervisor.FieldCloudInit) {
		return true, nil
	}

	return true, p.removeSeeds(ctx, current)
}

// removeSeeds removes all seeds that were made but one.
func (p *pass) removeSeeds(ctx context.Context, but string) error {
	for _, name := range slices.Clone(p.status.Seeds) {
		if name == but {
			continue
		}

		if err := p.removeVolume(ctx, name); err != nil {
			return err
		}

		p.status.Seeds = slices.DeleteFunc(slices.Clone(p.status.Seeds), func(s string) bool { return s == name })
	}

	if len(p.status.Seeds) == 0 {
		p.status.Seeds = nil
	}

	return nil
}
