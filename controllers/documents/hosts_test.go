package documents_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func vmText(name string) string {
	return "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: " + name + "}\n"
}

// slowPacer lets nothing pass until it is opened.
type slowPacer struct{ open chan struct{} }

func (p slowPacer) Wait(ctx context.Context) error {
	select {
	case <-p.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheHostsOfAllFilesAreDeclaredFirst(t *testing.T) {
	run(t, func(w *world) {
		w.stop()

		pacer := slowPacer{open: make(chan struct{})}
		c := w.startWith(pacer, w.dir)

		w.root(func(r *resources.FileRootSpec) { r.Available, r.Unsettled = true, 1 })
		w.settle()
		require.False(t, isClosed(c.HostsKnown()), "a file is not settled yet")

		w.scan(map[string]string{
			"a.yaml": vmText("a"),
			"b.yaml": "nonsense: [",
			"c.yaml": vmText("Host"), // no name of a VM, but the word
			"d.yaml": vmText("d") + "---\napiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: node}\nspec: {uri: 'sim://node'}\n",
			"e.yaml": "apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: other}\nspec: {uri: 'nonsense://other'}\n",
			"f.yaml": "{\"apiVersion\": \"gateway/v1alpha1\", \"kind\": \"\\u0048ost\", \"metadata\": {\"name\": \"escaped\"}, \"spec\": {\"uri\": \"sim://escaped\"}}",
		})

		require.False(t, isClosed(c.HostsKnown()))
		w.root(func(r *resources.FileRootSpec) { r.Unsettled = 0 })
		w.settle()
		require.True(t, isClosed(c.HostsKnown()))
		require.Empty(t, w.vms(), "no VM has been declared yet")
		require.Equal(t, []string{"escaped", "node"}, w.hosts())

		close(pacer.open)
		w.settle()
		require.Equal(t, []string{"a", "d"}, w.vms())
		require.Equal(t, []string{"escaped", "node"}, w.hosts())
		require.Equal(t, resources.OutcomeUnchanged, w.result("f.yaml").Objects[0].Outcome, "which is the file's own turn")
	})
}

func TestADirectoryThatCannotBeReadIsNotWaitedFor(t *testing.T) {
	run(t, func(w *world) {
		w.stop()

		c := w.startWith(noPacer{}, w.dir, "/nowhere")

		w.scan(map[string]string{"a.yaml": vmText("a")})
		require.False(t, isClosed(c.HostsKnown()), "nobody has looked at the other one")

		w.rootAt("/nowhere", func(r *resources.FileRootSpec) { r.Reason = resources.ReasonWaiting })
		w.settle()
		require.True(t, isClosed(c.HostsKnown()))
	})
}

func TestWithoutDirectoriesAllHostsAreKnown(t *testing.T) {
	run(t, func(w *world) {
		w.stop()
		require.True(t, isClosed(w.startWith(noPacer{}).HostsKnown()))
	})
}
