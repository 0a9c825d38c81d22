package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
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

// natsSchemes are those that the NATS client connects by.
var natsSchemes = []string{"nats", "tls", "ws", "wss"}

// imageSchemes are those that images are fetched by.
var imageSchemes = []string{"https", "http"}

var natsPrefix = regexp.MustCompile(`^[a-z0-9-]+$`)

// Check holds the configuration against its limits again, after fields were set above the file and the environment. from names
// what each of those came from, by the field's path, as in {"http.listen": "--listen"}. The error is of type Errors.
func (c *Config) Check(from map[string]string) error {
	var errs Errors

	for _, f := range c.validate(func(string) bool { return false }) {
		field, _, _ := strings.Cut(f.Path, "[")
		errs = append(errs, Error{File: cmp.Or(from[field], f.Path), Message: f.Message})
	}

	return errs.err()
}

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

	validateDocuments(c.Documents, &errs)

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

// validateDocuments checks the directories of documents: a file that were in two of them would be in conflict with itself.
func validateDocuments(directories []string, errs *resources.FieldErrors) {
	for i, directory := range directories {
		path := fmt.Sprintf("documents[%d]", i)

		if directory == "" {
			errs.Add(path, "a directory is required")

			continue
		}

		for j, other := range directories {
			// Of two that are equal the second one is at fault.
			if j != i && other != "" && contains(other, directory) && (j < i || !contains(directory, other)) {
				errs.Add(path, "%s is taken already: it is within %s, documents[%d], which is read with all that is below it", directory, other, j)

				break
			}
		}
	}
}

// contains reports whether a path is the directory, or is below it. Relative ones are below the working directory.
func contains(directory, path string) bool {
	from, err := filepath.Abs(directory)
	if err != nil {
		return false
	}

	to, err := filepath.Abs(path)
	if err != nil {
		return false
	}

	below, err := filepath.Rel(from, to)

	return err == nil && filepath.IsLocal(below)
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
		u, err := url.Parse(entry)
		isURL := err == nil && u.Host != "" && u.RawQuery == "" && slices.Contains(imageSchemes, u.Scheme)

		if !isURL && !slices.Contains(imageSchemes, entry) {
			errs.Add(fmt.Sprintf("policy.imageURLs[%d]", i), "%q is neither a scheme nor a URL that images are fetched by, as https or http://127.0.0.1:8000/", entry)
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
		u, err := url.Parse(strings.TrimSpace(server))

		switch {
		case err != nil || u.Host == "":
			errs.Add("nats.url", "not a URL, as nats://broker:4222")
		case !slices.Contains(natsSchemes, u.Scheme):
			errs.Add("nats.url", "%q is no scheme of a NATS server: use one of %s", u.Scheme, strings.Join(natsSchemes, ", "))
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
