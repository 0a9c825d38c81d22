//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// Domain implements hypervisor.Driver.
func (d *driver) Domain(ctx context.Context, uuid string) (hypervisor.Domain, error) {
	return call(ctx, d, request{doing: "reading domain", subject: uuid, lane: d.reads}, func(c *libvirt.Connect) (hypervisor.Domain, error) {
		dom, err := c.LookupDomainByUUIDString(uuid)
		if err != nil {
			return hypervisor.Domain{}, err
		}
		defer freeDomain(dom)

		return d.observe(dom)
	})
}

// DomainByName implements hypervisor.Driver.
func (d *driver) DomainByName(ctx context.Context, name string) (hypervisor.Domain, error) {
	return call(ctx, d, request{doing: "reading domain", subject: name, lane: d.reads}, func(c *libvirt.Connect) (hypervisor.Domain, error) {
		dom, err := c.LookupDomainByName(name)
		if err != nil {
			return hypervisor.Domain{}, err
		}
		defer freeDomain(dom)

		return d.observe(dom)
	})
}

// Domains implements hypervisor.Driver. libvirt has no call that returns all definitions: they are read one by one, on the
// connection for reads and, as far as nobody changes anything, on those for writes.
func (d *driver) Domains(ctx context.Context) ([]hypervisor.Domain, error) {
	handles, err := call(ctx, d, request{doing: "listing the domains", lane: d.reads}, func(c *libvirt.Connect) ([]libvirt.Domain, error) {
		return c.ListAllDomains(0)
	})
	if err != nil {
		return nil, err
	}

	seen := make([]*hypervisor.Domain, len(handles))

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(callsPerConnection)

	for i := range handles {
		group.Go(func() error {
			domain, err := call(ctx, d, request{doing: "reading a domain", lane: d.reads}, func(*libvirt.Connect) (hypervisor.Domain, error) {
				defer freeDomain(&handles[i])

				return d.observe(&handles[i])
			})
			// It was removed since it was listed.
			if errors.Is(err, hypervisor.ErrNotFound) {
				return nil
			}

			seen[i] = &domain

			return err
		})
	}

	if err := group.Wait(); err != nil {
		return nil, err
	}

	all := make([]hypervisor.Domain, 0, len(seen))

	for _, domain := range seen {
		if domain != nil {
			all = append(all, *domain)
		}
	}

	slices.SortFunc(all, func(a, b hypervisor.Domain) int { return strings.Compare(a.Name, b.Name) })

	return all, nil
}

// observe reads what the port wants to know of a domain: its definition, its state, and, where both can differ, what is
// running of it.
func (d *driver) observe(dom *libvirt.Domain) (hypervisor.Domain, error) {
	text, err := dom.GetXMLDesc(libvirt.DOMAIN_XML_INACTIVE)
	if err != nil {
		return hypervisor.Domain{}, err
	}

	config, err := definition.Parse(text)
	if err != nil {
		return hypervisor.Domain{}, err
	}

	state, reason, err := dom.GetState()
	if err != nil {
		return hypervisor.Domain{}, err
	}

	seen := hypervisor.Domain{Spec: definition.Observe(config)}
	seen.Name, seen.UUID = config.Name, config.UUID
	seen.State, seen.Reason = stateOf(state, reason)

	mark, _ := definition.MarkOf(config.Metadata)
	seen.Gateway, seen.VM, seen.Revision = mark.Gateway, mark.VM, mark.Revision

	if seen.Gateway != d.gateway {
		return seen, nil
	}

	if isOn(state) {
		if seen.RestartRequired, err = restartRequired(dom, config); err != nil {
			return hypervisor.Domain{}, err
		}
	}

	seen.Autostart, err = dom.GetAutostart()
	if isCode(err, libvirt.ERR_OPERATION_INVALID, libvirt.ERR_NO_SUPPORT, libvirt.ERR_INTERNAL_ERROR) {
		// A transient domain can't start by itself.
		seen.Autostart, err = false, nil
	}

	return seen, err
}

func restartRequired(dom *libvirt.Domain, config *libvirtxml.Domain) ([]string, error) {
	text, err := dom.GetXMLDesc(0)
	if err != nil {
		return nil, err
	}

	live, err := definition.Parse(text)
	if err != nil {
		return nil, err
	}

	return definition.RestartRequired(live, config), nil
}

// isOn reports whether a domain in this state has a guest, running or not.
func isOn(state libvirt.DomainState) bool {
	return state != libvirt.DOMAIN_SHUTOFF && state != libvirt.DOMAIN_NOSTATE && state != libvirt.DOMAIN_CRASHED
}

// stateOf translates libvirt's state of a domain, and its reason.
func stateOf(state libvirt.DomainState, reason int) (hypervisor.State, string) {
	switch state {
	case libvirt.DOMAIN_RUNNING, libvirt.DOMAIN_BLOCKED:
		return resources.StateRunning, word(runningReasons, libvirt.DomainRunningReason(reason))
	case libvirt.DOMAIN_SHUTDOWN:
		// The guest is on its way off, but still there.
		return resources.StateRunning, "shutting down"
	case libvirt.DOMAIN_PAUSED:
		return resources.StatePaused, word(pausedReasons, libvirt.DomainPausedReason(reason))
	case libvirt.DOMAIN_PMSUSPENDED:
		return resources.StatePaused, "suspended by the guest"
	case libvirt.DOMAIN_CRASHED:
		return resources.StateCrashed, "crashed"
	case libvirt.DOMAIN_SHUTOFF:
		text := word(shutoffReasons, libvirt.DomainShutoffReason(reason))
		if text == reasonCrashed {
			return resources.StateCrashed, text
		}

		return resources.StateStopped, text
	default:
		return resources.StateUnknown, reasonUnknown
	}
}

const (
	reasonUnknown = "unknown"
	reasonCrashed = "crashed"
)

var runningReasons = map[libvirt.DomainRunningReason]string{
	libvirt.DOMAIN_RUNNING_BOOTED:             "booted",
	libvirt.DOMAIN_RUNNING_MIGRATED:           "migrated",
	libvirt.DOMAIN_RUNNING_RESTORED:           "restored",
	libvirt.DOMAIN_RUNNING_FROM_SNAPSHOT:      "from snapshot",
	libvirt.DOMAIN_RUNNING_UNPAUSED:           "unpaused",
	libvirt.DOMAIN_RUNNING_MIGRATION_CANCELED: "migration canceled",
	libvirt.DOMAIN_RUNNING_SAVE_CANCELED:      "save canceled",
	libvirt.DOMAIN_RUNNING_WAKEUP:             "wakeup",
	libvirt.DOMAIN_RUNNING_CRASHED:            reasonCrashed,
}

var pausedReasons = map[libvirt.DomainPausedReason]string{
	libvirt.DOMAIN_PAUSED_USER:          "user",
	libvirt.DOMAIN_PAUSED_MIGRATION:     "migration",
	libvirt.DOMAIN_PAUSED_SAVE:          "save",
	libvirt.DOMAIN_PAUSED_DUMP:          "dump",
	libvirt.DOMAIN_PAUSED_IOERROR:       "I/O error",
	libvirt.DOMAIN_PAUSED_WATCHDOG:      "watchdog",
	libvirt.DOMAIN_PAUSED_FROM_SNAPSHOT: "from snapshot",
	libvirt.DOMAIN_PAUSED_SHUTTING_DOWN: "shutting down",
	libvirt.DOMAIN_PAUSED_SNAPSHOT:      "snapshot",
	libvirt.DOMAIN_PAUSED_CRASHED:       reasonCrashed,
	libvirt.DOMAIN_PAUSED_STARTING_UP:   "starting up",
}

var shutoffReasons = map[libvirt.DomainShutoffReason]string{
	libvirt.DOMAIN_SHUTOFF_SHUTDOWN:      "shutdown",
	libvirt.DOMAIN_SHUTOFF_DESTROYED:     "destroyed",
	libvirt.DOMAIN_SHUTOFF_CRASHED:       reasonCrashed,
	libvirt.DOMAIN_SHUTOFF_MIGRATED:      "migrated",
	libvirt.DOMAIN_SHUTOFF_SAVED:         "saved",
	libvirt.DOMAIN_SHUTOFF_FAILED:        "failed",
	libvirt.DOMAIN_SHUTOFF_FROM_SNAPSHOT: "from snapshot",
	libvirt.DOMAIN_SHUTOFF_DAEMON:        "daemon",
}

func word[K comparable](words map[K]string, reason K) string {
	if text, ok := words[reason]; ok {
		return text
	}

	return reasonUnknown
}

// freeDomain lets go of a handle. It fails only for a handle that is none.
func freeDomain(dom *libvirt.Domain) { _ = dom.Free() }
