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

		return d.observe(dom, nil)
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

		return d.observe(dom, nil)
	})
}

// Inspect implements hypervisor.Driver.
func (d *driver) Inspect(ctx context.Context, uuid string) (hypervisor.Inspection, error) {
	return call(ctx, d, request{doing: "inspecting domain", subject: uuid, lane: d.reads}, func(c *libvirt.Connect) (seen hypervisor.Inspection, err error) {
		dom, err := c.LookupDomainByUUIDString(uuid)
		if err != nil {
			return seen, err
		}
		defer freeDomain(dom)

		if seen.Domain, err = d.observe(dom, nil); err != nil {
			return seen, err
		}

		doc, _, err := readDefinition(dom)
		if err != nil {
			return seen, err
		}

		seen.Spec, seen.Beyond = definition.Inspect(doc.Domain)

		return seen, nil
	})
}

// Domains implements hypervisor.Driver. libvirt has no call that returns all definitions: they are read one by one, on several
// connections. What a list can say of all domains at once is not asked of each.
func (d *driver) Domains(ctx context.Context) ([]hypervisor.Domain, error) {
	list, err := call(ctx, d, request{doing: "listing the domains", lane: d.reads}, listDomains)
	if err != nil {
		return nil, err
	}

	seen := make([]*hypervisor.Domain, len(list))

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)

	for i := range list {
		group.Go(func() error {
			domain, err := call(ctx, d, request{doing: "reading a domain", lane: d.reads}, func(c *libvirt.Connect) (none hypervisor.Domain, err error) {
				dom, err := c.LookupDomainByUUIDString(list[i].uuid)
				if err != nil {
					return none, err
				}
				defer freeDomain(dom)

				return d.observe(dom, &list[i])
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

// listed is what a list says of a domain.
type listed struct {
	uuid string

	running, autostart, transient bool
}

// listDomains lists all domains, those that run, those that start by themselves, and those without a definition.
func listDomains(c *libvirt.Connect) ([]listed, error) {
	running, err := uuids(c, libvirt.CONNECT_LIST_DOMAINS_RUNNING)
	if err != nil {
		return nil, err
	}

	autostart, err := uuids(c, libvirt.CONNECT_LIST_DOMAINS_AUTOSTART)
	if err != nil {
		return nil, err
	}

	transient, err := uuids(c, libvirt.CONNECT_LIST_DOMAINS_TRANSIENT)
	if err != nil {
		return nil, err
	}

	all, err := uuids(c, 0)
	if err != nil {
		return nil, err
	}

	list := make([]listed, 0, len(all))
	for uuid := range all {
		list = append(list, listed{uuid: uuid, running: running[uuid], autostart: autostart[uuid], transient: transient[uuid]})
	}

	return list, nil
}

// uuids returns the domains that a filter lets through.
func uuids(c *libvirt.Connect, filter libvirt.ConnectListAllDomainsFlags) (map[string]bool, error) {
	handles, err := c.ListAllDomains(filter)
	if err != nil {
		return nil, err
	}

	found := make(map[string]bool, len(handles))

	for i := range handles {
		uuid, err := handles[i].GetUUIDString()
		if err != nil {
			return nil, err
		}

		found[uuid] = true
		freeDomain(&handles[i])
	}

	return found, nil
}

// observe reads what the port wants to know of a domain: its definition, its state, and, where both can differ, what is
// running of it. known is what a list said of it; nil: nothing.
func (d *driver) observe(dom *libvirt.Domain, known *listed) (hypervisor.Domain, error) {
	text, err := dom.GetXMLDesc(libvirt.DOMAIN_XML_INACTIVE)
	if err != nil {
		return hypervisor.Domain{}, err
	}

	config, err := definition.Parse(text)
	if err != nil {
		return hypervisor.Domain{}, err
	}

	mark, _ := definition.MarkOf(config.Metadata)
	seen := hypervisor.Domain{
		Name: config.Name, UUID: config.UUID, Spec: definition.Observe(config),
		Gateway: mark.Gateway, VM: mark.VM, Revision: mark.Revision,
	}

	if known == nil && seen.Gateway == d.gateway {
		seen.Definition = definition.Pack(text)
	}

	state, reason := libvirt.DOMAIN_RUNNING, 0

	if known == nil || !known.running {
		if state, reason, err = dom.GetState(); err != nil {
			return hypervisor.Domain{}, err
		}
	}

	seen.State, seen.Reason = stateOf(state, reason)

	if seen.Gateway == d.gateway && isOn(state) {
		if err = compareRunning(dom, config, &seen); err != nil {
			return hypervisor.Domain{}, err
		}
	}

	if known != nil {
		seen.Autostart, seen.Transient = known.autostart, known.transient

		return seen, nil
	}

	if isOn(state) {
		persistent, err := dom.IsPersistent()
		if err != nil {
			return hypervisor.Domain{}, err
		}

		seen.Transient = !persistent
	}

	seen.Autostart, err = dom.GetAutostart()
	if isCode(err, libvirt.ERR_OPERATION_INVALID, libvirt.ERR_NO_SUPPORT, libvirt.ERR_INTERNAL_ERROR) {
		// A transient domain can't start by itself.
		seen.Autostart, err = false, nil
	}

	return seen, err
}

// compareRunning notes in what a running domain differs from its definition.
func compareRunning(dom *libvirt.Domain, config *libvirtxml.Domain, seen *hypervisor.Domain) error {
	text, err := dom.GetXMLDesc(0)
	if err != nil {
		return err
	}

	live, err := definition.Parse(text)
	if err != nil {
		return err
	}

	seen.RestartRequired = definition.RestartRequired(live, config)
	seen.WaitsForGuest = definition.WaitsForGuest(live, config)

	return nil
}

// isOn reports whether a domain in this state has a guest, running or not.
func isOn(state libvirt.DomainState) bool {
	return state != libvirt.DOMAIN_SHUTOFF && state != libvirt.DOMAIN_NOSTATE && state != libvirt.DOMAIN_CRASHED
}

// stateOf translates libvirt's state of a domain, and its reason.
func stateOf(state libvirt.DomainState, reason int) (hypervisor.State, string) {
	switch state {
	case libvirt.DOMAIN_RUNNING, libvirt.DOMAIN_BLOCKED:
		// Why a domain runs is nothing that a list can say.
		return resources.StateRunning, ""
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

var pausedReasons = map[libvirt.DomainPausedReason]string{
	libvirt.DOMAIN_PAUSED_USER:          "user",
	libvirt.DOMAIN_PAUSED_MIGRATION:     "migration",
	libvirt.DOMAIN_PAUSED_SAVE:          "save",
	libvirt.DOMAIN_PAUSED_DUMP:          "dump",
	libvirt.DOMAIN_PAUSED_IOERROR:       hypervisor.ReasonIOError,
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
