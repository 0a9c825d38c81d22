package resources_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// paths returns where the specification has faults.
func paths(spec any) (at []string) {
	for _, e := range resources.ValidateSpec(spec) {
		at = append(at, e.Path)
	}

	return at
}

func TestAWebhookChecksItself(t *testing.T) {
	files := []string{"/s"}
	valid := func() *resources.WebhookSpec {
		spec := resources.NewWebhook("a").TypedSpec()
		spec.Auth.GitHub = &resources.SecretAuth{SecretFiles: files}

		return spec
	}
	require.Empty(t, paths(valid()))

	for name, test := range map[string]struct {
		change func(*resources.WebhookSpec)
		want   []string
	}{
		"no way":            {func(s *resources.WebhookSpec) { s.Auth.GitHub = nil }, []string{"spec.auth"}},
		"two ways":          {func(s *resources.WebhookSpec) { s.Auth.None = true }, []string{"spec.auth"}},
		"everybody":         {func(s *resources.WebhookSpec) { s.Auth = resources.WebhookAuth{None: true} }, nil},
		"no secret":         {func(s *resources.WebhookSpec) { s.Auth.GitHub.SecretFiles = nil }, []string{"spec.auth.github.secretFiles"}},
		"a relative secret": {func(s *resources.WebhookSpec) { s.Auth.GitHub.SecretFiles = []string{"s"} }, []string{"spec.auth.github.secretFiles[0]"}},
		"basic": {func(s *resources.WebhookSpec) {
			s.Auth = resources.WebhookAuth{Basic: &resources.BasicAuth{Username: "a:b", PasswordFiles: files}}
		}, []string{"spec.auth.basic.username"}},
		"bearer": {func(s *resources.WebhookSpec) {
			s.Auth = resources.WebhookAuth{Bearer: &resources.TokenAuth{TokenFiles: []string{""}}}
		}, []string{"spec.auth.bearer.tokenFiles[0]"}},
		"mtls": {func(s *resources.WebhookSpec) {
			s.Auth = resources.WebhookAuth{MTLS: &resources.MTLSAuth{}}
		}, []string{"spec.auth.mtls.subjects"}},
		"hmac": {func(s *resources.WebhookSpec) {
			s.Auth = resources.WebhookAuth{HMAC: &resources.HMACAuth{Header: "a b", Algorithm: "md5", Encoding: "hex", TimestampHeader: ":", SecretFiles: files}}
		}, []string{"spec.auth.hmac.algorithm", "spec.auth.hmac.header", "spec.auth.hmac.timestampHeader"}},
		"what is signed": {func(s *resources.WebhookSpec) {
			s.Auth = resources.WebhookAuth{HMAC: &resources.HMACAuth{Header: "X-S", Algorithm: "sha256", Encoding: "hex", SignedText: "{bdy}", SecretFiles: files}}
		}, []string{"spec.auth.hmac.signedText"}},
		"peers": {func(s *resources.WebhookSpec) { s.Allow = []string{"10.0.0.0/8", "::1", "10.0.0.1/8", "x"} },
			[]string{"spec.allow[2]", "spec.allow[3]"}},
		"a window": {func(s *resources.WebhookSpec) { s.ReplayWindow = 0 }, []string{"spec.replayWindow"}},
		"a header": {func(s *resources.WebhookSpec) { s.DeliveryID = "X Y" }, []string{"spec.deliveryId"}},
		"limits":   {func(s *resources.WebhookSpec) { s.Limits = resources.WebhookLimits{} }, []string{"spec.limits.body", "spec.limits.concurrency", "spec.limits.rate", "spec.limits.timeout", "spec.limits.overload"}},
		"no kinds": {func(s *resources.WebhookSpec) { s.Apply = &resources.ApplyRule{Names: "*"} }, []string{"spec.apply.kinds"}},
		"bad kinds": {func(s *resources.WebhookSpec) {
			s.Apply = &resources.ApplyRule{Kinds: []string{"VM", "Action"}, Names: "[", Path: "a..b"}
		}, []string{"spec.apply.kinds[1]", "spec.apply.names", "spec.apply.path"}},
		"no target": {func(s *resources.WebhookSpec) { s.Target = &resources.Target{Kind: "VM"} }, []string{"spec.target"}},
		"two targets": {func(s *resources.WebhookSpec) {
			s.Target = &resources.Target{Kind: "VM", Name: "a", Selector: &resources.Selector{}}
		}, []string{"spec.target"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := valid()
			test.change(spec)
			require.Equal(t, test.want, paths(spec))
		})
	}
}

func TestASubscriptionChecksItself(t *testing.T) {
	valid := func() *resources.SubscriptionSpec {
		spec := resources.NewSubscription("a").TypedSpec()
		spec.Subject, spec.Stream = "ops.vm.>", "OPS"

		return spec
	}
	require.Empty(t, paths(valid()))

	for name, test := range map[string]struct {
		change func(*resources.SubscriptionSpec)
		want   []string
	}{
		"no subject":     {func(s *resources.SubscriptionSpec) { s.Subject = "" }, []string{"spec.subject"}},
		"a server's":     {func(s *resources.SubscriptionSpec) { s.Subject = "$JS.API.>" }, []string{"spec.subject"}},
		"a stream":       {func(s *resources.SubscriptionSpec) { s.Stream = "a.b" }, []string{"spec.stream"}},
		"queue, stream":  {func(s *resources.SubscriptionSpec) { s.Queue = "q" }, []string{"spec.queue"}},
		"core":           {func(s *resources.SubscriptionSpec) { s.Stream, s.Queue = "", "q" }, nil},
		"core from then": {func(s *resources.SubscriptionSpec) { s.Stream, s.Deliver.Policy = "", "all" }, []string{"spec.deliver"}},
		"since nothing":  {func(s *resources.SubscriptionSpec) { s.Deliver.Policy = "since" }, []string{"spec.deliver"}},
		"numbers": {func(s *resources.SubscriptionSpec) { s.MaxDeliver, s.AckWait, s.MaxBytes = 0, 0, 0 },
			[]string{"spec.maxDeliver", "spec.ackWait", "spec.maxBytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := valid()
			test.change(spec)
			require.Equal(t, test.want, paths(spec))
		})
	}
}

func TestSubjectsAreThoseOfNATS(t *testing.T) {
	for subject, want := range map[string][2]bool{
		"a": {true, true}, "a.b-c.D_1": {true, true}, "$KV.b.k": {true, true}, "a.*": {false, true}, "a.>": {false, true}, ">": {false, true},
		"": {false, false}, ".a": {false, false}, "a.": {false, false}, "a..b": {false, false}, "a b": {false, false}, "a.>.b": {false, false},
		"a*": {false, false}, "a\n": {false, false},
	} {
		require.Equal(t, want[0], resources.ValidSubject(subject, false), subject)
		require.Equal(t, want[1], resources.ValidSubject(subject, true), subject)
	}
}

func TestATriggerChecksItself(t *testing.T) {
	all := &resources.Selector{}

	for name, test := range map[string]struct {
		spec resources.TriggerSpec
		want []string
	}{
		"every way": {resources.TriggerSpec{On: resources.TriggerOn{Source: "webhook", Name: "a"}, Do: []resources.TriggerAction{
			{Sync: &resources.Target{Kind: "VM", Selector: all}},
			{Delete: &resources.Target{Kind: "VM", Name: "a"}},
			{Apply: &resources.TriggerApply{Document: resources.JSON(`{"kind":"VM"}`)}},
			{Patch: &resources.TriggerPatch{Kind: "VM", Name: "a", Merge: resources.JSON(`{"spec":{}}`)}},
			{Publish: &resources.TriggerPublish{Subject: "a.${event.name}"}},
		}}, nil},
		"a file by its path": {resources.TriggerSpec{On: resources.TriggerOn{Source: "file", Name: "/d/a.yaml"}, Do: []resources.TriggerAction{
			{Publish: &resources.TriggerPublish{Subject: "a"}}}}, nil},
		"nothing": {resources.TriggerSpec{}, []string{"spec.on.source", "spec.do"}},
		"a name":  {resources.TriggerSpec{On: resources.TriggerOn{Source: "domain", Name: "A"}, Do: []resources.TriggerAction{{}}}, []string{"spec.on.name", "spec.do[0]"}},
		"two actions in one": {resources.TriggerSpec{On: resources.TriggerOn{Source: "file"}, Do: []resources.TriggerAction{
			{Sync: &resources.Target{Kind: "VM", Name: "a"}, Delete: &resources.Target{Kind: "X", Name: "a"}}}},
			[]string{"spec.do[0]", "spec.do[0].delete.kind"}},
		"parts that are missing": {resources.TriggerSpec{On: resources.TriggerOn{Source: "file"}, Do: []resources.TriggerAction{
			{Apply: &resources.TriggerApply{}}, {Patch: &resources.TriggerPatch{Kind: "VM", Merge: resources.JSON(`[]`)}}, {Publish: &resources.TriggerPublish{Subject: "a.*"}}}},
			[]string{"spec.do[0].apply.document", "spec.do[1].patch", "spec.do[1].patch.merge", "spec.do[2].publish.subject"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, paths(&test.spec))
		})
	}
}
