package documents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// force deletes a VM as an operator does with --force.
func (w *world) force(name string) {
	w.Helper()

	_, err := w.st.Teardown(w.Context(), resources.NewVMConfig(name).Metadata())
	require.NoError(w, err)
	w.settle()
}

// What was deleted by force stays away until its file changes, also where something else makes the file be applied again.
func TestWhatWasDeletedByForceComesBackOnlyWithAChange(t *testing.T) {
	refused := document("broken", "memory: 512MiB, disks: [{name: x, path: /etc/shadow}]")

	for name, again := range map[string]func(w *world, content string){
		"a restart, and another object of the file that is refused": func(w *world, _ string) { w.stop(); w.start(); w.settle() },
		"a file that is written with the same content":              func(w *world, content string) { w.scan(map[string]string{"a.yaml": content}) },
		"a look at the directory":                                   func(w *world, _ string) { w.scan(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				content := document("web", "") + document("db", "") + refused
				w.scan(map[string]string{"a.yaml": content, "x.yaml": document("x", "")})
				require.Equal(t, []string{"db", "web", "x"}, w.vms())

				w.force("web")
				require.Equal(t, []string{"db", "x"}, w.vms())

				for range 2 {
					again(w, content)
					require.Equal(t, []string{"db", "x"}, w.vms())
				}

				w.scan(map[string]string{"a.yaml": content + "# changed\n"})
				require.Equal(t, []string{"db", "web", "x"}, w.vms())
				require.Equal(t, resources.OutcomeCreated, w.result("a.yaml").Objects[0].Outcome)
			})
		})
	}

	t.Run("and meanwhile the file says so", func(t *testing.T) {
		run(t, func(w *world) {
			content := document("web", "") + refused
			w.scan(map[string]string{"a.yaml": content, "x.yaml": document("x", "")})
			w.force("web")
			w.stop()
			w.start()
			w.settle()

			web := w.result("a.yaml").Objects[0]
			require.Equal(t, resources.OutcomeDeleted, web.Outcome)
			require.Contains(t, web.Message, "comes back when the file changes")
		})
	})
}
