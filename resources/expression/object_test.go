package expression_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gateway/resources/expression"
)

// web is a VM as `gateway get -o json` shows it.
const web = `{"apiVersion":"gateway/v1alpha1","kind":"VM","metadata":{"name":"web-1","labels":{"tier":"web"},"revision":3,
	"created":"2026-05-01T08:00:00Z","origin":"file:/d/a.yaml"},"spec":{"cpus":2,"memory":"1GiB"},
	"status":{"state":"running","host":"a","conditions":[{"type":"Converged","status":"True"}],"observedRevision":9007199254740993}}`

func objects(t *testing.T) expression.Input {
	t.Helper()

	one, err := expression.ParseObject([]byte(web))
	require.NoError(t, err)

	bare, err := expression.ParseObject([]byte(`{"kind":"Host","metadata":{"name":"a"},"spec":{"uri":"sim://a"}}`))
	require.NoError(t, err)

	return expression.Input{Event: expression.Event{Name: "deploy"}, Objects: []expression.Object{one, bare}}
}

func TestAConditionLooksAtObjects(t *testing.T) {
	for text, want := range map[string]bool{
		`objects.exists(o, o.kind == "VM" && o.metadata.name == "web-1")`:                                  true,
		`objects.filter(o, o.kind == "VM").all(o, o.status.state == "running")`:                            true,
		`objects.exists(o, "tier" in o.metadata.labels && o.metadata.labels.tier == "db")`:                 false,
		`objects.exists_one(o, o.metadata.labels.size() == 0)`:                                             true,
		`objects[0].status.observedRevision == 9007199254740993`:                                           true,
		`objects[0].spec.cpus >= 2 && objects[0].metadata.revision == 3`:                                   true,
		`objects[0].metadata.created < timestamp("2026-05-01T08:00:01Z")`:                                  true,
		`objects[1].status == null`:                                                                        true,
		`objects.size() == 2 && objects[0].status.conditions.exists(c, c.type == "Converged")`:             true,
		`objects.map(o, o.metadata.name) == ["web-1", "a"]`:                                                true,
		`objects.exists(o, o.metadata.origin.startsWith("file:")) && objects.all(o, !o.metadata.deleting)`: true,
	} {
		t.Run(text, func(t *testing.T) {
			program, err := expression.CompileCondition(text)
			require.NoError(t, err)
			require.True(t, program.UsesObjects())

			yes, err := program.EvalBool(t.Context(), objects(t))
			require.NoError(t, err)
			require.Equal(t, want, yes)
		})
	}
}

func TestExpressionsOverObjectsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`objects.exists(o, o.metdata.name == "x")`:       "undefined field 'metdata'",
		`objects.exists(o, o.metadata.nme == "x")`:       "undefined field 'nme'",
		`objects[0].metadata.revision == "3"`:            "no matching overload",
		`objects.name == "x"`:                            "does not support field selection",
		`object.name == "x"`:                             "undeclared reference to 'object'",
		`objects.exists(o, o.metadata.labels.tier == 1)`: "no matching overload",
	} {
		_, err := expression.CompileCondition(text)
		require.ErrorContains(t, err, want, text)
	}

	program, err := expression.CompileCondition(`event.data.objects == "objects"`)
	require.NoError(t, err)
	require.False(t, program.UsesObjects(), "another thing of this name")

	program, err = expression.CompileCondition(`objects[7].kind == "VM"`)
	require.NoError(t, err)
	_, err = program.EvalBool(t.Context(), objects(t))
	require.ErrorContains(t, err, "index out of bounds")
}

func TestALoopOverObjectsStopsAtItsCost(t *testing.T) {
	input := objects(t)
	for len(input.Objects) < 1000 {
		input.Objects = append(input.Objects, input.Objects[0])
	}

	nested, err := expression.CompileCondition(`objects.exists(a, objects.exists(b, a.kind == b.metadata.name))`)
	require.NoError(t, err)

	single, err := expression.CompileCondition(`objects.all(o, o.kind == "VM" || o.metadata.labels.size() == 0)`)
	require.NoError(t, err)

	// In a bubble no time passes while something computes: not the deadline but the cost stops it, on any machine.
	synctest.Test(t, func(t *testing.T) {
		_, err := nested.EvalBool(t.Context(), input)
		require.ErrorContains(t, err, "cost limit")

		// One look at each is well within it.
		_, err = single.EvalBool(t.Context(), input)
		require.NoError(t, err)
	})
}

func TestATemplateHoldsWhatObjectsHave(t *testing.T) {
	template, err := expression.Interpolate([]byte(`{"names":"${objects.map(o, o.metadata.name)}","first":"${objects[0].metadata}",
		"host":"on ${objects[0].status.host}","whole":"${objects[1]}"}`))
	require.NoError(t, err)
	require.True(t, template.UsesObjects())

	got, err := template.Eval(t.Context(), objects(t))
	require.NoError(t, err)
	require.JSONEq(t, `{"names":["web-1","a"],"host":"on a","first":{"name":"web-1","labels":{"tier":"web"},"revision":3,
		"created":"2026-05-01T08:00:00Z","origin":"file:/d/a.yaml"},
		"whole":{"apiVersion":"","kind":"Host","metadata":{"name":"a"},"spec":{"uri":"sim://a"}}}`, string(got))

	template, err = expression.Interpolate([]byte(`["${event.name}", "objects"]`))
	require.NoError(t, err)
	require.False(t, template.UsesObjects())
}
