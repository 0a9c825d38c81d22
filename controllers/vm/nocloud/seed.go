package nocloud

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
)

// Seed is what a guest is told when it boots.
type Seed struct {
	// Instance is who the guest is: while it stays, cloud-init does once what is to be done once.
	Instance string
	Hostname string
	// UserData is handed on as it is; empty: a configuration without anything in it.
	UserData string
	// SSHKeys may log in as the image's default user.
	SSHKeys []string
	// Interfaces are configured when one of them has an address; otherwise the guest does what it does by itself.
	Interfaces []Interface
}

// Interface is one network interface of the guest.
type Interface struct {
	MAC string
	// Address and its prefix; the zero Prefix: by DHCP.
	Address netip.Prefix
	// Router leads elsewhere, Nameserver answers for Domain; each may be left out.
	Router, Nameserver netip.Addr
	Domain             string
}

// Files of a seed.
const (
	fileUserData = "user-data"
	fileMetaData = "meta-data"
	fileNetwork  = "network-config"
)

// file is one file of a seed.
type file struct {
	name    string
	content []byte
}

type metaData struct {
	Instance string   `json:"instance-id"`
	Hostname string   `json:"local-hostname"`
	Keys     []string `json:"public-keys,omitempty"`
}

// networkConfig is version 2 of cloud-init's network configuration.
type networkConfig struct {
	Version   int                 `json:"version"`
	Ethernets map[string]ethernet `json:"ethernets"`
}

type ethernet struct {
	Match       match        `json:"match"`
	DHCP        bool         `json:"dhcp4"`
	Addresses   []string     `json:"addresses,omitempty"`
	Routes      []route      `json:"routes,omitempty"`
	Nameservers *nameservers `json:"nameservers,omitempty"`
}

type match struct {
	MAC string `json:"macaddress"`
}

type route struct {
	To  string `json:"to"`
	Via string `json:"via"`
}

type nameservers struct {
	Addresses []string `json:"addresses"`
	Search    []string `json:"search,omitempty"`
}

// files returns the files of the seed, always in the same order.
func (s *Seed) files() ([]file, error) {
	meta, err := encode(metaData{Instance: s.Instance, Hostname: s.Hostname, Keys: s.SSHKeys})
	if err != nil {
		return nil, fmt.Errorf("error writing %s: %w", fileMetaData, err)
	}

	user := s.UserData
	if user == "" {
		user = "#cloud-config\n{}\n"
	}

	files := []file{{fileUserData, []byte(user)}, {fileMetaData, meta}}

	if !s.hasAddress() {
		return files, nil
	}

	network, err := encode(s.network())
	if err != nil {
		return nil, fmt.Errorf("error writing %s: %w", fileNetwork, err)
	}

	return append(files, file{fileNetwork, network}), nil
}

// encode writes JSON, which is YAML in which every text is quoted: readers of YAML 1.1 take a host called no for a boolean.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	err := encoder.Encode(v)

	return out.Bytes(), err
}

func (s *Seed) hasAddress() bool {
	for _, i := range s.Interfaces {
		if i.Address.IsValid() {
			return true
		}
	}

	return false
}

func (s *Seed) network() networkConfig {
	config := networkConfig{Version: 2, Ethernets: map[string]ethernet{}}

	for n, i := range s.Interfaces {
		e := ethernet{Match: match{MAC: i.MAC}, DHCP: !i.Address.IsValid()}

		if i.Address.IsValid() {
			e.Addresses = []string{i.Address.String()}

			if i.Router.IsValid() {
				e.Routes = []route{{To: "0.0.0.0/0", Via: i.Router.String()}}
			}

			if i.Nameserver.IsValid() {
				e.Nameservers = &nameservers{Addresses: []string{i.Nameserver.String()}}
				if i.Domain != "" {
					e.Nameservers.Search = []string{i.Domain}
				}
			}
		}

		config.Ethernets[fmt.Sprintf("nic%d", n)] = e
	}

	return config
}

// Digest tells one seed from another, in hex.
func (s *Seed) Digest() (string, error) {
	files, err := s.files()
	if err != nil {
		return "", err
	}

	sum := sha256.New()

	for _, f := range files {
		// A hash never fails. The length keeps files apart.
		_, _ = fmt.Fprintf(sum, "%s %d\n%s\n", f.name, len(f.content), f.content)
	}

	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
