package config

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func hostAt(uri string) resource.Resource {
	host := resources.NewHost("a")
	host.TypedSpec().URI = uri

	return host
}

func TestHostURIsAreHeldByPolicy(t *testing.T) {
	policy := Default().Policy

	for _, uri := range []string{
		"qemu:///system", "qemu:///session", "qemu+unix:///system?socket=/run/x", "qemu+ssh://root@node-7/system?keyfile=/etc/gateway/secrets/k&no_tty=1",
		"qemu+tls://node-7/system?pkipath=/etc/gateway/secrets/pki", "test:///default", "test+unix:///default", "sim://a?boot=2s&state=/tmp/x",
	} {
		require.Empty(t, policy.Check(hostAt(uri)), uri)
	}

	for uri, want := range map[string]string{
		"qemu+ext:///system":                                    "qemu+ext:///system is not allowed",
		"qemu:///system?socket=/tmp/x":                          "qemu:///system is not allowed",
		"lxc:///":                                               "lxc:/// is not allowed",
		"qemu+unix:///system?command=id":                        "command= is refused",
		"qemu+ssh://a/system?netcat=/tmp/x":                     "netcat= is refused",
		"qemu+ssh://a/system?a=b;NETCAT=x":                      "netcat= is refused",
		"qemu+ssh://a/system?%6eetcat=x":                        "netcat= is refused",
		"qemu+tls://a/system?no_verify=1":                       "no_verify= is refused",
		"qemu+ssh://a/system?name=lxc:///":                      "name= is refused",
		"qemu+ssh://a/system?known_hosts_verify=ignore":         "known_hosts_verify=ignore is refused",
		"qemu+ssh://a/system?keyfile=/root/.ssh/id":             `keyfile=: /root/.ssh/id is not allowed`,
		"qemu+ssh://a/system?keyfile=/etc/gateway/secrets/../x": `is not a clean absolute path`,
		"qemu+tls://a/system?pkipath=/tmp":                      `pkipath=: /tmp is not allowed`,
		"qemu+ssh://-oProxyCommand=id/system":                   "can't start with '-'",
		"qemu+ssh://a:hunter2@[::1]/system?command=x":           "command= is refused",
		"vbox://a:hunter2@h/system?token=hunter2":               "vbox://a:xxxxx@h/system is not allowed",
	} {
		errs := policy.Check(hostAt(uri))
		require.NotEmpty(t, errs, uri)
		require.Equal(t, "spec.uri", errs[0].Path)
		require.Contains(t, errs[0].Message, want, uri)
		require.NotContains(t, errs.Error(), "hunter2")
	}
}

func TestPathsAreHeldByPolicyAfterSymbolicLinks(t *testing.T) {
	root := t.TempDir()
	images, outside := filepath.Join(root, "images"), filepath.Join(root, "outside")
	require.NoError(t, os.Mkdir(images, 0o700))
	require.NoError(t, os.Mkdir(outside, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(images, "disk"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "shadow"), nil, 0o600))

	for link, target := range map[string]string{
		"inside": "disk", "out": "../outside", "file": "../outside/shadow", "dangling": "../outside/later", "loop": "loop",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(images, link)))
	}

	require.NoError(t, os.Symlink(images, filepath.Join(root, "alias")))

	policy := Policy{Paths: []string{images}}

	check := func(path string) resources.FieldErrors {
		vm := resources.NewVMConfig("a")
		vm.TypedSpec().Disks = []resources.Disk{{Name: "d", Path: path}}

		return policy.Check(vm)
	}

	for _, path := range []string{images, "disk", "inside", "new/later", "disk.qcow2"} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(images, path)
		}

		require.Empty(t, check(path), path)
	}

	for path, want := range map[string]string{
		"/etc/shadow":        "/etc/shadow is not allowed",
		images + "x":         "is not allowed",
		images + "/../x":     "is not a clean absolute path",
		images + "/out/disk": "is a symbolic link that leads to " + outside,
		images + "/file":     "is a symbolic link that leads to " + outside + "/shadow",
		images + "/dangling": "is a dangling symbolic link",
		images + "/loop":     "can't be checked for symbolic links",
		root + "/alias/disk": "is not allowed",
	} {
		errs := check(path)
		require.Len(t, errs, 1, path)
		require.Equal(t, "spec.disks[0].path", errs[0].Path)
		require.Contains(t, errs[0].Message, want)
	}

	// A directory of the policy may itself be behind a link.
	policy.Paths = []string{filepath.Join(root, "alias")}
	require.Empty(t, check(root+"/alias/disk"))
}

func TestEveryPathOfADocumentIsChecked(t *testing.T) {
	policy := Default().Policy

	vm := resources.NewVMConfig("a")
	vm.TypedSpec().Boot = &resources.Boot{Kernel: "/k", Initrd: "/i"}
	vm.TypedSpec().CloudInit = &resources.CloudInit{UserDataFile: "/u"}

	image := resources.NewImage("a")
	image.TypedSpec().Source = "/s"

	hook := resources.NewWebhook("a")
	secret := &resources.SecretAuth{SecretFiles: []string{"/etc/gateway/secrets/ok", "/s"}}
	hook.TypedSpec().Auth = resources.WebhookAuth{
		GitHub: secret, GitLab: secret, Gitea: secret, Standard: secret,
		Bearer: &resources.TokenAuth{TokenFiles: []string{"/s"}},
		Basic:  &resources.BasicAuth{PasswordFiles: []string{"/s"}},
		HMAC:   &resources.HMACAuth{SecretFiles: []string{"/s"}},
	}

	for _, test := range []struct {
		r    resource.Resource
		want []string
	}{
		{vm, []string{"spec.boot.kernel", "spec.boot.initrd", "spec.cloudInit.userDataFile"}},
		{image, []string{"spec.source"}},
		{hook, []string{
			"spec.auth.github.secretFiles[1]", "spec.auth.gitlab.secretFiles[1]", "spec.auth.gitea.secretFiles[1]", "spec.auth.standard.secretFiles[1]",
			"spec.auth.bearer.tokenFiles[0]", "spec.auth.basic.passwordFiles[0]", "spec.auth.hmac.secretFiles[0]",
		}},
	} {
		var got []string
		for _, e := range policy.Check(test.r) {
			got = append(got, e.Path)
		}

		require.Equal(t, test.want, got)
	}
}

func TestImageURLsAreHeldByPolicy(t *testing.T) {
	policy := Policy{ImageURLs: []string{"https", "http://127.0.0.1:8000/images/", "http://mirror.lan"}}

	for text, allowed := range map[string]bool{
		"https://example.org/a.qcow2":                true,
		"http://example.org/a.qcow2":                 false,
		"ftp://example.org/a":                        false,
		"https://127.0.0.1/a":                        false,
		"https://localhost/a":                        false,
		"https://LOCALHOST./a":                       false,
		"https://10.0.0.1/a":                         false,
		"https://169.254.169.254/latest":             false,
		"https://[::1]/a":                            false,
		"https://[::ffff:10.0.0.1]/a":                false,
		"https://[fd00::1]/a":                        false,
		"https://192.0.2.1/a":                        true,
		"http://127.0.0.1:8000/images/a":             true,
		"http://127.0.0.1:8000/imagesx/a":            false,
		"http://127.0.0.1:8000/images/../secret":     false,
		"http://127.0.0.1:8000/images/%2e%2e/secret": false,
		"http://127.0.0.1:80001/images/a":            false,
		"http://127.0.0.1:8000@evil.example/images/": false,
		"http://mirror.lan/any/where":                true,
		"http://mirror.lan.evil.example/a":           false,
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)

		if allowed {
			require.NoError(t, policy.AllowedURL(u), text)
		} else {
			require.Error(t, policy.AllowedURL(u), text)
		}
	}
}

func TestDocumentsKeepOffTheGatewaysOwnSubjects(t *testing.T) {
	policy := Policy{NATSPrefix: "home"}

	for subject, allowed := range map[string]bool{
		"ops.vm.>": true, "*": true, "homes.vm": true, "gateway.vm.a": true, "$KV.other.key": true, "home": true,
		"home.vm.a.status": false, "home.>": false, ">": false, "*.vm.>": false, "*.>": false,
		"$JS.API.STREAM.DELETE.X": false, "$SYS.>": false, "$KV.home-vm-status.a": false, "$KV.>": false, "$KV.*.a": false,
	} {
		sub := resources.NewSubscription("a")
		sub.TypedSpec().Subject = subject

		trigger := resources.NewTrigger("a")
		trigger.TypedSpec().Do = []resources.TriggerAction{{}, {Publish: &resources.TriggerPublish{Subject: subject}}}

		if allowed {
			require.Empty(t, policy.Check(sub), subject)
			require.Empty(t, policy.Check(trigger), subject)

			continue
		}

		require.Equal(t, "spec.subject", policy.Check(sub)[0].Path, subject)
		require.Equal(t, "spec.do[1].publish.subject", policy.Check(trigger)[0].Path, subject)
	}

	require.Error(t, Policy{}.CheckSubject("gateway.vm.a.status"))
	require.Error(t, Default().Policy.CheckSubject("gateway.${event.name}"))
}
