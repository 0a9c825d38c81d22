package resources

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// NetworkType is the COSI type of Network.
const NetworkType = "Networks" + typeSuffix

// Network is a virtual network as it was declared.
type Network = typed.Resource[NetworkSpec, NetworkExtension]

// Modes of a network.
const (
	NetworkNAT      = "nat"
	NetworkIsolated = "isolated"
	NetworkBridge   = "bridge"
	NetworkExisting = "existing"
)

// NetworkSpec is a virtual network that VMs can be on. It is made on a host before its first VM there.
type NetworkSpec struct {
	Mode   string   `json:"mode" protobuf:"1" default:"nat" enum:"nat,isolated,bridge,existing" doc:"existing: a libvirt network of this name that the gateway did not make"`
	Subnet string   `json:"subnet,omitempty" protobuf:"2" doc:"IPv4 prefix, /16 to /29; the first address is the host's"`
	Range  []string `json:"range,omitempty" protobuf:"3" doc:"first and last address that is given out; default: all but the first of the subnet"`
	Domain string   `json:"domain,omitempty" protobuf:"4" doc:"DNS domain of the VMs' names"`
	Bridge string   `json:"bridge,omitempty" protobuf:"5" doc:"mode bridge: the host's bridge device, at most 15 characters"`
	// Network is the name of an existing one.
	Network string `json:"network,omitempty" protobuf:"6" doc:"mode existing: the libvirt network's name, where it is not that of the document"`
}

// LibvirtNetwork is the name of the network on hypervisors; name is that of the document.
func (s *NetworkSpec) LibvirtNetwork(name string) string {
	if s.Mode == NetworkExisting && s.Network != "" {
		return s.Network
	}

	return name
}

// Prefix returns the subnet; the zero Prefix where there is none.
func (s *NetworkSpec) Prefix() netip.Prefix {
	p, err := netip.ParsePrefix(s.Subnet)
	if err != nil {
		return netip.Prefix{}
	}

	return p.Masked()
}

// Gateway returns the host's address in the network: the first of the subnet.
func (s *NetworkSpec) Gateway() netip.Addr {
	p := s.Prefix()
	if !p.IsValid() {
		return netip.Addr{}
	}

	return p.Addr().Next()
}

// Bounds returns the first and last address that may be given out to VMs.
func (s *NetworkSpec) Bounds() (first, last netip.Addr) {
	if len(s.Range) == 2 {
		first, _ = netip.ParseAddr(s.Range[0])
		last, _ = netip.ParseAddr(s.Range[1])

		return first, last
	}

	p := s.Prefix()
	if !p.IsValid() {
		return netip.Addr{}, netip.Addr{}
	}

	// The broadcast address is the last of the prefix and never given out.
	bytes := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}

	return s.Gateway().Next(), netip.AddrFrom4(bytes).Prev()
}

// Validate implements Validator.
func (s *NetworkSpec) Validate() (errs FieldErrors) {
	if s.Network != "" && s.Mode != NetworkExisting {
		errs.Add("spec.network", "only for mode existing")
	}

	if len(s.Network) > maxText || strings.ContainsFunc(s.Network, isControl) || strings.ContainsRune(s.Network, '/') {
		errs.Add("spec.network", "%q is not the name of a network", s.Network)
	}

	switch s.Mode {
	case NetworkNAT, NetworkIsolated:
		s.validateSubnet(&errs)

		if s.Bridge != "" {
			errs.Add("spec.bridge", "only for mode bridge; the gateway names the bridges of its own networks")
		}
	case NetworkBridge:
		if len(s.Bridge) < 1 || len(s.Bridge) > 15 || strings.ContainsAny(s.Bridge, "/ \t\n") {
			errs.Add("spec.bridge", "mode bridge needs the name of a bridge device, at most 15 characters")
		}

		fallthrough
	case NetworkExisting:
		if s.Subnet != "" || len(s.Range) > 0 || s.Domain != "" {
			errs.Add("spec.subnet", "subnet, range and domain are for networks that the gateway makes: nat and isolated")
		}
	}

	return errs
}

func (s *NetworkSpec) validateSubnet(errs *FieldErrors) {
	p, err := netip.ParsePrefix(s.Subnet)

	switch {
	case s.Subnet == "":
		errs.Add("spec.subnet", "mode %s needs a subnet, as 10.7.0.0/24", s.Mode)

		return
	case err != nil || !p.Addr().Is4() || p.Masked() != p:
		errs.Add("spec.subnet", "%q is not an IPv4 network, as 10.7.0.0/24", s.Subnet)

		return
	case p.Bits() < 16 || p.Bits() > 29:
		errs.Add("spec.subnet", "/%d is not between /16 and /29", p.Bits())

		return
	}

	if s.Domain != "" {
		for part := range strings.SplitSeq(s.Domain, ".") {
			if err := ValidateName(part); err != nil {
				errs.Add("spec.domain", "%s", err)

				break
			}
		}
	}

	if len(s.Range) == 0 {
		return
	}

	if len(s.Range) != 2 {
		errs.Add("spec.range", "give the first and the last address")

		return
	}

	for i, text := range s.Range {
		a, err := netip.ParseAddr(text)
		if err != nil || !p.Contains(a) || a == p.Addr() || a == s.Gateway() {
			errs.Add(fmt.Sprintf("spec.range[%d]", i), "%q is not an address of %s after %s, which is the host's", text, s.Subnet, s.Gateway())

			return
		}
	}

	if first, last := s.Bounds(); last.Less(first) {
		errs.Add("spec.range", "%s is after %s", first, last)
	}
}

// DeepCopy implements typed.DeepCopyable.
func (s NetworkSpec) DeepCopy() NetworkSpec {
	s.Range = cloneSlice(s.Range)

	return s
}

// NetworkExtension supplies the definition of Network.
type NetworkExtension struct{}

// ResourceDefinition implements typed.Extension.
func (NetworkExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(NetworkType, NamespaceNetworks, []string{"network", "networks", "net"},
		column{Name: "Mode", JSONPath: "{.mode}"},
		column{Name: "Subnet", JSONPath: "{.subnet}"})
}

// NewNetwork returns an empty Network with every default set.
func NewNetwork(id string) *Network { return newResource[NetworkSpec, NetworkExtension](id) }

var _ = register[NetworkSpec, NetworkExtension]("Network", "Networks", Declared, "NetworkStatus")
