package resources_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// fill sets every field below v to something that is not zero, so that a copy or an encoding that forgets a field is seen.
func fill(v reflect.Value, n *int) {
	*n++

	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(1_700_000_000+*n), 0).UTC()))

		return
	}

	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))

		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", *n)), reflect.ValueOf(fmt.Sprint("v", *n)))
	case reflect.String:
		v.SetString(fmt.Sprint("text-", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n % 250))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		panic("fill does not know " + v.Type().String())
	}
}

// sharedAt returns the paths at which a and b hold the same memory.
func sharedAt(path string, a, b reflect.Value) (paths []string) {
	switch a.Kind() {
	case reflect.Pointer:
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}

		return sharedAt(path, a.Elem(), b.Elem())
	case reflect.Map:
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
	case reflect.Slice:
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}

		for i := range a.Len() {
			paths = append(paths, sharedAt(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i))...)
		}
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[time.Time]() {
			return nil
		}

		for i := range a.NumField() {
			paths = append(paths, sharedAt(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))...)
		}
	default:
	}

	return paths
}

func filled(k *resources.Kind) resource.Resource {
	r := k.New("a-name")
	n := 0
	fill(reflect.ValueOf(r.Spec()).Elem(), &n)
	r.Metadata().Labels().Set("tier", "web")
	r.Metadata().Annotations().Set("note", "x")

	return r
}

func TestEveryKindSurvivesProtobuf(t *testing.T) {
	for _, k := range resources.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			want := filled(k)

			encoded, err := protobuf.FromResource(want)
			require.NoError(t, err)

			message, err := encoded.Marshal()
			require.NoError(t, err)

			decoded, err := protobuf.Unmarshal(message)
			require.NoError(t, err)

			got, err := protobuf.UnmarshalResource(decoded)
			require.NoError(t, err)
			require.Equal(t, want.Spec(), got.Spec())
			require.True(t, want.Metadata().Equal(*got.Metadata()))
		})
	}
}

func TestEveryDeepCopySharesNothing(t *testing.T) {
	// Payloads are the exception: they are never changed, and up to 64 MiB each.
	payloads := map[string][]string{"WebhookEvent": {".Data"}, "MessageEvent": {".Data"}}

	for _, k := range resources.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			original := filled(k)
			copied := original.DeepCopy()

			require.Equal(t, original.Spec(), copied.Spec())
			require.Equal(t, payloads[k.Name], sharedAt("", reflect.ValueOf(original.Spec()).Elem(), reflect.ValueOf(copied.Spec()).Elem()))
		})
	}
}

func TestPresenceOfEmptyPartsSurvivesProtobuf(t *testing.T) {
	vm := resources.NewVMConfig("a")
	vm.TypedSpec().Adopt = &resources.Adopt{}

	hook := resources.NewWebhook("a")
	hook.TypedSpec().Target = &resources.Target{Kind: "VM", Selector: &resources.Selector{}}

	host := resources.NewHost("a")
	host.TypedSpec().Schedulable = false

	for _, want := range []resource.Resource{vm, hook, host} {
		encoded, err := protobuf.FromResource(want)
		require.NoError(t, err)

		got, err := protobuf.UnmarshalResource(encoded)
		require.NoError(t, err)
		require.Equal(t, want.Spec(), got.Spec())
	}
}

func TestControllerNamesAreFrozen(t *testing.T) {
	// A name is stored as finalizer and owner: changing one strands what older versions wrote.
	require.Equal(t, []string{"documents", "trigger", "placement", "network", "vm", "image", "host", "retention", "resync",
		"source-files", "source-schedules", "source-webhooks", "source-subscriptions", "source-domainevents"},
		[]string{resources.ControllerDocuments, resources.ControllerTrigger, resources.ControllerPlacement, resources.ControllerNetwork,
			resources.ControllerVM, resources.ControllerImage, resources.ControllerHost, resources.ControllerRetention, resources.ControllerResync,
			resources.SourceFiles, resources.SourceSchedules, resources.SourceWebhooks, resources.SourceSubscriptions, resources.SourceDomainEvents})
}

func TestEveryKindIsRegistered(t *testing.T) {
	want := []string{
		"Action", "ApplyResult", "CronTick", "DeletionGuard", "DomainEvent", "FileEvent", "FileRoot", "FileStatus", "Hold", "Host",
		"HostStatus", "Image", "ImageStatus", "MessageEvent", "Network", "NetworkConfig", "NetworkStatus", "Override", "Resync",
		"Schedule", "ScheduleStatus", "Subscription", "SubscriptionStatus", "Tombstone", "Trigger", "VM", "VMPlacement", "VMStatus",
		"Webhook", "WebhookEvent", "WebhookStatus",
	}

	got := make([]string, 0, len(want))
	aliases := map[string]string{}

	for _, k := range resources.Kinds() {
		got = append(got, k.Name)

		for _, alias := range k.Aliases {
			require.Empty(t, aliases[alias], "alias %s of %s", alias, k.Name)
			aliases[alias] = k.Name
		}

		if k.Status != "" {
			status, ok := resources.KindByName(k.Status)
			require.True(t, ok, k.Status)
			require.Equal(t, k.Namespace, status.Namespace)
		}
	}

	require.Equal(t, want, got)
}

func TestCaseV6SizesOfBothSystemsAreDifferent(t *testing.T) {
	for text, want := range map[string]struct {
		size  resources.Size
		shown string
	}{
		"4GB":    {4e9, "4GB"},
		"4GiB":   {4 << 30, "4GiB"},
		"4Gi":    {4 << 30, "4GiB"},
		"512MiB": {512 << 20, "512MiB"},
		"1024Mi": {1 << 30, "1GiB"},
		"1.5GiB": {3 << 29, "1536MiB"},
		"4096":   {4096, "4KiB"},
		"0":      {0, "0"},
		"1000kB": {1e6, "1MB"},
		"1001":   {1001, "1001"},
	} {
		got, err := resources.ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want.size, got, text)
		require.Equal(t, want.shown, got.String(), text)
	}

	for _, text := range []string{"", "-1", "4G B", "4gib", "4 Gi B", "0.3", "1e3", "9999999PiB", "NaN", "4GiBs"} {
		_, err := resources.ParseSize(text)
		require.Error(t, err, text)
	}
}

func TestCaseV7NamesAreRefusedAlike(t *testing.T) {
	for _, name := range []string{"", "../x", "a/b", ".", "é", "a\x00", "-a", "a-", "A", "a_b", "a.b", " a",
		"0123456789012345678901234567890123456789012345678901234567890123"} {
		require.Error(t, resources.ValidateName(name), "%q", name)
	}

	for _, name := range []string{"a", "0", "web-1", "012345678901234567890123456789012345678901234567890123456789012"} {
		require.NoError(t, resources.ValidateName(name), "%q", name)
	}
}

func TestCaseV5ImpossibleNumbersAreFoundAtTheirField(t *testing.T) {
	set := map[string]func(*resources.VMConfigSpec){
		"spec.memory": func(s *resources.VMConfigSpec) { s.Memory = 0 },
		"spec.cpus":   func(s *resources.VMConfigSpec) { s.CPUs = 0 },
	}
	for path, f := range set {
		vm := resources.NewVMConfig("a")
		require.Empty(t, resources.Validate(vm))
		f(vm.TypedSpec())

		errs := resources.Validate(vm)
		require.Len(t, errs, 1)
		require.Equal(t, path, errs[0].Path)
	}

	for _, memory := range []resources.Size{-1, 1 << 50} {
		vm := resources.NewVMConfig("a")
		vm.TypedSpec().Memory = memory
		require.Equal(t, "spec.memory", resources.Validate(vm)[0].Path)
	}

	vm := resources.NewVMConfig("a")
	vm.TypedSpec().CPUs = 100_000
	require.Equal(t, "spec.cpus", resources.Validate(vm)[0].Path)
}

func TestDefaultsDoNotReplaceWhatIsSet(t *testing.T) {
	spec := resources.VMConfigSpec{CPUs: 4}
	resources.SetDefaults(&spec)

	require.Equal(t, 4, spec.CPUs)
	require.Equal(t, 512*resources.MiB, spec.Memory)
	require.Equal(t, resources.PowerRunning, spec.Power)
	require.Equal(t, time.Minute, spec.Shutdown.Grace.Std())
}
