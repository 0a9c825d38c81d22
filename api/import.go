package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/api/adoption"
	"gateway/hypervisor"
	"gateway/resources"
)

// Hypervisors are the connections to hosts; hypervisor.Pool is one.
type Hypervisors interface {
	// Driver returns the connection to a host; an error that wraps hypervisor.ErrUnreachable while there is none.
	Driver(host string) (hypervisor.Driver, error)
}

// ImportRequest asks for the documents that adopt existing domains.
type ImportRequest struct {
	// Host is where they are; empty: on any host, which for one domain has to be the only one.
	Host string `json:"host,omitempty"`
	// Domain is the name or UUID of one domain, VM the name that its VM is to have. Without them all are meant.
	Domain string `json:"domain,omitempty"`
	VM     string `json:"vm,omitempty"`
	// From are the ids of gateways that are gone: of all domains, those with their mark are meant too. Without one they are
	// where this gateway has no domain of its own, as after the loss of its data, and where a VM of the mark waits for its domain.
	From []string `json:"from,omitempty"`
}

// Imported are the documents, and the hosts that could not be asked.
type Imported struct {
	adoption.Documents

	Unasked []string `json:"unasked,omitempty"`
}

func (o *operations) importDomains(w http.ResponseWriter, r *http.Request) error {
	var request ImportRequest
	if err := decode(r, &request); err != nil {
		return err
	}

	answer, err := o.Import(r.Context(), request)
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, answer)

	return nil
}

// Import returns the documents that adopt existing domains. It changes nothing.
func (o *Operations) Import(ctx context.Context, request ImportRequest) (Imported, error) {
	var answer Imported

	hosts, err := o.hostsFor(ctx, request)
	if err != nil {
		return answer, err
	}

	declared, err := o.declared(ctx)
	if err != nil {
		return answer, err
	}

	var domains []adoption.Domain

	for _, host := range hosts {
		found, err := o.domainsOf(ctx, host, request, &declared)
		if errors.Is(err, hypervisor.ErrUnreachable) && request.Host == "" && request.Domain == "" {
			answer.Unasked = append(answer.Unasked, err.Error())

			continue
		}

		if err != nil {
			return answer, err
		}

		domains = append(domains, found...)
	}

	var left []adoption.Remark

	if request.Domain == "" {
		if domains, left, err = o.choose(domains, request.From, declared); err != nil {
			return answer, err
		}
	}

	answer.Documents = adoption.Make(domains, declared)
	answer.Remarks = append(answer.Remarks, left...)

	return answer, nil
}

// hostsFor returns the hosts that a request is about.
func (o *Operations) hostsFor(ctx context.Context, request ImportRequest) ([]string, error) {
	list, err := o.state.List(ctx, resources.NewHost("").Metadata())
	if err != nil {
		return nil, fmt.Errorf("error listing the hosts: %w", err)
	}

	var names []string
	for _, item := range list.Items {
		names = append(names, item.Metadata().ID())
	}

	switch {
	case request.Host != "" && !slices.Contains(names, request.Host):
		return nil, fmt.Errorf("host %q: %w", request.Host, errNotFound)
	case request.Host != "":
		return []string{request.Host}, nil
	case len(names) == 0:
		return nil, usage("no host is declared: apply a document of kind Host first")
	case request.Domain != "" && len(names) > 1:
		return nil, usage("name the host with --host: there are %s", strings.Join(names, ", "))
	}

	return names, nil
}

// declared reads what is declared.
func (o *Operations) declared(ctx context.Context) (adoption.Declared, error) {
	d := adoption.Declared{
		VMs: map[string]*resources.VMConfig{}, Statuses: map[string]*resources.VMStatus{}, Networks: map[string]*resources.Network{},
		OnHosts: map[string][]hypervisor.Network{},
	}

	for _, kind := range []resource.Kind{resources.NewVMConfig("").Metadata(), resources.NewVMStatus("").Metadata(), resources.NewNetwork("").Metadata()} {
		list, err := o.state.List(ctx, kind)
		if err != nil {
			return d, fmt.Errorf("error listing %s: %w", kind.Type(), err)
		}

		for _, item := range list.Items {
			switch r := item.(type) {
			case *resources.VMConfig:
				d.VMs[r.Metadata().ID()] = r
			case *resources.VMStatus:
				d.Statuses[r.Metadata().ID()] = r
			case *resources.Network:
				d.Networks[r.Metadata().ID()] = r
			}
		}
	}

	return d, nil
}

// driver returns the connection to a host.
func (o *Operations) driver(host string) (hypervisor.Driver, error) {
	if o.Hypervisors == nil {
		return nil, usage("this gateway has no hypervisors")
	}

	return o.Hypervisors.Driver(host)
}

// domainsOf returns the domains of a host that are meant, and notes its networks.
func (o *Operations) domainsOf(ctx context.Context, host string, request ImportRequest, declared *adoption.Declared) ([]adoption.Domain, error) {
	driver, err := o.driver(host)
	if err != nil {
		return nil, err
	}

	all, err := driver.Domains(ctx)
	if err != nil {
		return nil, err
	}

	if declared.OnHosts[host], err = driver.Networks(ctx); err != nil {
		return nil, err
	}

	var found []adoption.Domain

	for _, d := range all {
		if request.Domain != "" && request.Domain != d.Name && request.Domain != d.UUID {
			continue
		}

		seen, err := driver.Inspect(ctx, d.UUID)
		if errors.Is(err, hypervisor.ErrNotFound) {
			continue // it was removed since it was listed
		}

		if err != nil {
			return nil, err
		}

		found = append(found, adoption.Domain{Host: host, Inspection: seen, VM: request.VM})
	}

	if request.Domain != "" {
		return found, o.mayImport(found, host, request, declared)
	}

	return found, nil
}

// mayImport returns why the one domain that a request names can't be imported.
func (o *Operations) mayImport(found []adoption.Domain, host string, request ImportRequest, declared *adoption.Declared) error {
	if len(found) == 0 {
		return fmt.Errorf("domain %q on host %q: %w", request.Domain, host, errNotFound)
	}

	if err := resources.ValidateName(request.VM); err != nil {
		return usage("%s", err)
	}

	d := found[0]
	if d.Gateway == o.Store.GatewayID() && declared.VMs[d.Inspection.VM] != nil {
		return usage("domain %q on host %q is that of VM %q already", d.Name, host, d.Inspection.VM)
	}

	status := declared.Statuses[request.VM]
	if declared.VMs[request.VM] != nil && status != nil && status.TypedSpec().DomainUUID != "" && status.TypedSpec().DomainUUID != d.UUID {
		return usage("VM %q has a domain already, %s on host %q: name another VM", request.VM, status.TypedSpec().DomainUUID, status.TypedSpec().Host)
	}

	return nil
}

// choose leaves out of all domains those that are ours, and those of gateways that may be alive; what it leaves out for
// the latter is said.
func (o *Operations) choose(domains []adoption.Domain, from []string, declared adoption.Declared) (chosen []adoption.Domain, left []adoption.Remark, err error) {
	var (
		own    = o.Store.GatewayID()
		ours   = slices.ContainsFunc(domains, func(d adoption.Domain) bool { return d.Gateway == own })
		marked = map[string]int{}
	)

	for i := range domains {
		d := &domains[i]

		switch vm := declared.VMs[d.Inspection.VM]; {
		case d.Gateway == own && vm != nil:
		case d.Gateway == "", d.Gateway == own, slices.Contains(from, d.Gateway):
			chosen = append(chosen, *d)
		case len(from) == 0 && (!ours || vm != nil && waits(declared.Statuses[d.Inspection.VM])):
			marked[d.Gateway]++

			chosen = append(chosen, *d)
		default:
			left = append(left, adoption.Remark{Host: d.Host, Domain: d.Name, Text: fmt.Sprintf(
				"it is left out: it carries the mark of gateway %s; if that one is gone for good, --from %s takes its domains over", d.Gateway, d.Gateway)})
		}
	}

	if len(marked) > 1 {
		return nil, nil, usage("the hosts have domains of several gateways: name those that are gone for good with --from: %s", strings.Join(resources.SortedKeys(marked), ", "))
	}

	return chosen, left, nil
}

// waits reports whether a VM has no domain.
func waits(status *resources.VMStatus) bool {
	return status == nil || status.TypedSpec().DomainUUID == ""
}
