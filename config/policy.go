package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

// Check returns what the policy does not allow in a declared object. It holds for every way in, and for operators too:
// only the process configuration widens it.
func (p Policy) Check(r resource.Resource) (errs resources.FieldErrors) {
	switch spec := r.Spec().(type) {
	case *resources.HostSpec:
		p.checkHost(spec, &errs)
	case *resources.VMConfigSpec:
		p.checkVM(spec, &errs)
	case *resources.ImageSpec:
		p.checkImage(spec, &errs)
	case *resources.WebhookSpec:
		p.checkWebhook(spec, &errs)
	case *resources.SubscriptionSpec:
		if err := p.CheckSubject(spec.Subject); err != nil {
			errs.Add("spec.subject", "%s", err)
		}
	case *resources.TriggerSpec:
		p.checkTrigger(spec, &errs)
	}

	return errs
}

// forbiddenParameters of a libvirt URI: the first three run commands on the gateway's machine or skip the check of who
// answers, `name` makes the remote daemon open another URI than the one that was allowed.
var forbiddenParameters = []string{"command", "netcat", "no_verify", "name"}

// secretParameters of a libvirt URI name files that hold keys.
var secretParameters = []string{"keyfile", "pkipath"}

func (p Policy) checkHost(spec *resources.HostSpec, errs *resources.FieldErrors) {
	u, err := url.Parse(spec.URI)
	if err != nil || u.Fragment != "" {
		errs.Add("spec.uri", "not a URI of libvirt")

		return
	}

	// Names starting with '-' would be options of ssh.
	if strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") {
		errs.Add("spec.uri", "a host or user can't start with '-'")
	}

	for name, value := range uriParameters(u.RawQuery) {
		switch {
		case slices.Contains(forbiddenParameters, name):
			errs.Add("spec.uri", "%s= is refused", name)
		case name == "known_hosts_verify" && value != "normal" && value != "auto":
			errs.Add("spec.uri", "%s=%s is refused", name, value)
		case slices.Contains(secretParameters, name):
			if err := within(value, p.SecretPaths); err != nil {
				errs.Add("spec.uri", "%s=: %s: policy.secretPaths has %s", name, err, listed(p.SecretPaths))
			}
		}
	}

	allowed := slices.ContainsFunc(p.HostURIs, func(entry string) bool {
		if strings.Contains(entry, ":") {
			return spec.URI == entry
		}

		return u.Scheme == entry
	})

	if !allowed {
		errs.Add("spec.uri", "%s is not allowed: policy.hostURIs has %s", redactedURI(u), listed(p.HostURIs))
	}
}

// uriParameters returns the parameters of a libvirt URI as libvirt reads them: separated by & or ;, names in any case.
func uriParameters(query string) map[string]string {
	parameters := map[string]string{}

	for part := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(part, "=")
		parameters[strings.ToLower(unescaped(name))] = unescaped(value)
	}

	return parameters
}

// unescaped decodes %XX; text that is escaped wrongly stays as it is, and then matches nothing.
func unescaped(text string) string {
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}

	return text
}

// redactedURI is a URI without password and parameters.
func redactedURI(u *url.URL) string {
	shown := *u
	shown.RawQuery = ""

	return shown.Redacted()
}

func (p Policy) checkVM(spec *resources.VMConfigSpec, errs *resources.FieldErrors) {
	if spec.Boot != nil {
		p.checkPath("spec.boot.kernel", spec.Boot.Kernel, errs)
		p.checkPath("spec.boot.initrd", spec.Boot.Initrd, errs)
	}

	for i, disk := range spec.Disks {
		p.checkPath(fmt.Sprintf("spec.disks[%d].path", i), disk.Path, errs)
	}

	if spec.CloudInit != nil {
		p.checkSecret("spec.cloudInit.userDataFile", spec.CloudInit.UserDataFile, errs)
	}
}

func (p Policy) checkPath(field, path string, errs *resources.FieldErrors) {
	if path == "" {
		return
	}

	if err := within(path, p.Paths); err != nil {
		errs.Add(field, "%s: policy.paths has %s", err, listed(p.Paths))
	}
}

func (p Policy) checkSecret(field, path string, errs *resources.FieldErrors) {
	if path == "" {
		return
	}

	if err := within(path, p.SecretPaths); err != nil {
		errs.Add(field, "%s: policy.secretPaths has %s", err, listed(p.SecretPaths))
	}
}

func (p Policy) checkSecrets(field string, paths []string, errs *resources.FieldErrors) {
	for i, path := range paths {
		p.checkSecret(fmt.Sprintf("%s[%d]", field, i), path, errs)
	}
}

func (p Policy) checkWebhook(spec *resources.WebhookSpec, errs *resources.FieldErrors) {
	auth := spec.Auth

	for _, way := range []struct {
		name   string
		secret *resources.SecretAuth
	}{{"github", auth.GitHub}, {"gitlab", auth.GitLab}, {"gitea", auth.Gitea}, {"standard", auth.Standard}} {
		if way.secret != nil {
			p.checkSecrets("spec.auth."+way.name+".secretFiles", way.secret.SecretFiles, errs)
		}
	}

	if auth.Bearer != nil {
		p.checkSecrets("spec.auth.bearer.tokenFiles", auth.Bearer.TokenFiles, errs)
	}

	if auth.Basic != nil {
		p.checkSecrets("spec.auth.basic.passwordFiles", auth.Basic.PasswordFiles, errs)
	}

	if auth.HMAC != nil {
		p.checkSecrets("spec.auth.hmac.secretFiles", auth.HMAC.SecretFiles, errs)
	}
}

func (p Policy) checkImage(spec *resources.ImageSpec, errs *resources.FieldErrors) {
	if strings.HasPrefix(spec.Source, "/") {
		p.checkPath("spec.source", spec.Source, errs)

		return
	}

	u, err := url.Parse(spec.Source)
	if err != nil {
		errs.Add("spec.source", "not a URL")

		return
	}

	if err := p.AllowedURL(u); err != nil {
		errs.Add("spec.source", "%s", err)
	}
}

// AllowedURL returns nil when an image may be fetched from the URL: its scheme is listed and its host is not literally a
// loopback, link-local or private address, or a listed prefix covers it. It does not resolve names: who dials checks the
// address with AllowedAddress as well, for each redirect.
func (p Policy) AllowedURL(u *url.URL) error {
	if p.Listed(u) {
		return nil
	}

	if !slices.Contains(p.ImageURLs, u.Scheme) {
		return fmt.Errorf("%s is not allowed: policy.imageURLs has %s", redactedURI(u), listed(p.ImageURLs))
	}

	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return fmt.Errorf("%s is this machine: list the URL in policy.imageURLs to allow it", host)
	}

	if addr, err := netip.ParseAddr(host); err == nil {
		return AllowedAddress(addr)
	}

	return nil
}

// AllowedAddress returns an error for an address that an image is not fetched from unless its URL is listed: what is
// reachable from the gateway only is not for documents to reach.
func AllowedAddress(addr netip.Addr) error {
	addr = addr.Unmap()
	if addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
		return fmt.Errorf("%s is not a public address: list the URL in policy.imageURLs to allow it", addr)
	}

	return nil
}

// Listed reports whether policy.imageURLs has a URL that u is below: same scheme and host, and a path that starts with its
// path at a border of segments. Such a URL may also lead to an address that is not public.
func (p Policy) Listed(u *url.URL) bool {
	return slices.ContainsFunc(p.ImageURLs, func(entry string) bool {
		prefix, err := url.Parse(entry)
		if err != nil || prefix.Host == "" || prefix.Scheme != u.Scheme || !strings.EqualFold(prefix.Host, u.Host) {
			return false
		}

		base, target := strings.TrimSuffix(prefix.Path, "/"), path.Clean("/"+u.Path)

		return target == base || strings.HasPrefix(target, base+"/")
	})
}

func listed(entries []string) string {
	if len(entries) == 0 {
		return "nothing"
	}

	return strings.Join(entries, ", ")
}
