package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gateway/resources"
)

// Limits of the process configuration.
const (
	// minResync: a pass over 100,000 VMs takes about a second, and it is only the safety net.
	minResync = time.Second
	maxResync = 24 * time.Hour
	maxPrefix = 63
)

var natsPrefix = regexp.MustCompile(`^[a-z0-9-]+$`)

// validate checks what types can't say. given reports whether a key was set by the file or a variable.
func (c *Config) validate(given func(path string) bool) (errs resources.FieldErrors) {
	if c.ID != "" {
		if err := resources.ValidateName(c.ID); err != nil {
			errs.Add("id", "%s", err)
		}
	}

	if c.DataDir == "" {
		errs.Add("dataDir", "a directory is required")
	}

	for i, directory := range c.Documents {
		if directory == "" {
			errs.Add(fmt.Sprintf("documents[%d]", i), "a directory is required")
		}
	}

	if r := c.Resync.Std(); r < minResync || r > maxResync {
		errs.Add("resync", "%s is not between %s and %s", c.Resync, resources.Duration(minResync), resources.Duration(maxResync))
	}

	if c.Deletions.Free < 0 {
		errs.Add("deletions.free", "%d is negative", c.Deletions.Free)
	}

	c.Policy.validate(&errs)
	c.HTTP.validate(&errs)
	c.NATS.validate(given, &errs)

	return errs
}

func (p Policy) validate(errs *resources.FieldErrors) {
	for key, paths := range map[string][]string{"policy.paths": p.Paths, "policy.secretPaths": p.SecretPaths} {
		for i, path := range paths {
			if !filepath.IsAbs(path) {
				errs.Add(fmt.Sprintf("%s[%d]", key, i), "%q is not an absolute path", path)
			}
		}
	}

	for i, entry := range p.HostURIs {
		if u, err := url.Parse(entry); entry == "" || err != nil || u.RawQuery != "" {
			errs.Add(fmt.Sprintf("policy.hostURIs[%d]", i), "%q is neither a URI without parameters nor a scheme, as qemu:///system or qemu+ssh", entry)
		}
	}

	for i, entry := range p.ImageURLs {
		isScheme := entry != "" && !strings.ContainsAny(entry, ":/")
		if u, err := url.Parse(entry); !isScheme && (err != nil || u.Host == "" || u.RawQuery != "") {
			errs.Add(fmt.Sprintf("policy.imageURLs[%d]", i), "%q is neither a scheme nor a URL, as https or http://127.0.0.1:8000/", entry)
		}
	}
}

func (h HTTP) validate(errs *resources.FieldErrors) {
	validateListen("http.listen", h.Listen, errs)

	if (h.TLS.Certificate == "") != (h.TLS.Key == "") {
		errs.Add("http.tls", "certificate and key belong together")
	}

	if h.TLS.ClientCA != "" && h.TLS.Certificate == "" {
		errs.Add("http.tls.clientCA", "needs certificate and key")
	}
}

func (n NATS) validate(given func(path string) bool, errs *resources.FieldErrors) {
	if len(n.Prefix) > maxPrefix || !natsPrefix.MatchString(n.Prefix) {
		errs.Add("nats.prefix", "%.64q is not a prefix: use 1 to %d of a-z, 0-9 and '-'", n.Prefix, maxPrefix)
	}

	if (n.TLS.Certificate == "") != (n.TLS.Key == "") {
		errs.Add("nats.tls", "certificate and key belong together")
	}

	if n.URL == "" {
		validateListen("nats.embedded.listen", n.Embedded.Listen, errs)

		for key, set := range map[string]bool{
			"nats.credentials": n.Credentials != "", "nats.nkey": n.NKey != "", "nats.tokenFile": n.TokenFile != "", "nats.tls": n.TLS != NATSTLS{},
		} {
			if set {
				errs.Add(key, "only with nats.url; the embedded server has nats.embedded.tokenFile")
			}
		}

		return
	}

	for server := range strings.SplitSeq(n.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(server)); err != nil || u.Host == "" {
			errs.Add("nats.url", "not a URL, as nats://broker:4222")
		}
	}

	for _, key := range []string{"nats.embedded.listen", "nats.embedded.tokenFile"} {
		if given(key) {
			errs.Add(key, "give either nats.url or nats.embedded, not both")
		}
	}

	ways := 0

	for _, way := range []string{n.Credentials, n.NKey, n.TokenFile} {
		if way != "" {
			ways++
		}
	}

	if ways > 1 {
		errs.Add("nats", "at most one of credentials, nkey and tokenFile is allowed")
	}
}

// validateListen checks an address to listen on: HOST:PORT, port 0 for any that is free.
func validateListen(path, address string, errs *resources.FieldErrors) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, " /") {
		errs.Add(path, "%q is not an address to listen on, as 127.0.0.1:8080", address)

		return
	}

	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		errs.Add(path, "%q is not a port between 0 and 65535", port)
	}
}
