package expression_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources/expression"
)

func input(data string) expression.Input {
	return expression.Input{Event: expression.Event{
		ID: "e1", Source: "webhook", Name: "deploy", Type: "push", Subject: "vm/web",
		Time:    time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC),
		Headers: map[string]string{"x-github-event": "push"},
		Data:    expression.Data([]byte(data)),
	}}
}

func TestCaseS80ConditionsDecideOverTheEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		when, data string
		want       bool
	}{
		"a member of the data":               {`event.data.ref == "refs/heads/main"`, `{"ref":"refs/heads/main"}`, true},
		"a header":                           {`event.headers["x-github-event"] == "push"`, ``, true},
		"has() finds no member":              {`has(event.data.ref)`, `{}`, false},
		"has() guards a missing member":      {`has(event.data.ref) && event.data.ref == "x"`, `{}`, false},
		"a whole number stays exact":         {`event.data.n == 9007199254740993`, `{"n":9007199254740993}`, true},
		"its neighbour is another":           {`event.data.n == 9007199254740992`, `{"n":9007199254740993}`, false},
		"a fraction is a double":             {`event.data.n > 1`, `{"n":1.5}`, true},
		"data that is no JSON is text":       {`event.data.startsWith("hello")`, `hello, world`, true},
		"two JSON values are text":           {`event.data == "1 2"`, `1 2`, true},
		"no data is null":                    {`event.data == null`, ``, true},
		"the time is a timestamp":            {`event.time < timestamp("2027-01-01T00:00:00Z")`, ``, true},
		"attributes have their CEL-Go types": {`event.source + "/" + event.name == "webhook/deploy"`, ``, true},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := expression.CompileCondition(tc.when)
			require.NoError(t, err)

			got, err := program.EvalBool(t.Context(), input(tc.data))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestCaseS80AMissingFieldIsAnError(t *testing.T) {
	program, err := expression.CompileCondition(`event.data.ref == "main"`)
	require.NoError(t, err)

	_, err = program.EvalBool(t.Context(), input(`{"reff":1}`))
	require.EqualError(t, err, "no such key: ref")
}

func TestCaseS80FaultsAreFoundWhenCompiling(t *testing.T) {
	for name, tc := range map[string]struct {
		when   string
		column int
	}{
		"a syntax error":               {`event.id ==`, 12},
		"a type error":                 {`event.id + 1 == 2`, 10},
		"an attribute that is not one": {`event.nme == "a"`, 6},
		"an unknown variable":          {`true && foo`, 9},
		"no condition":                 {`event.id`, 1},
		"a broken pattern":             {`event.id.matches("(a")`, 1},
		"too long":                     {strings.Repeat(" ", 9000) + "true", 1},
		"too deep":                     {strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500), 1},
		"empty":                        {``, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := expression.CompileCondition(tc.when)

			var fault *expression.Error

			require.ErrorAs(t, err, &fault)

			if name != "too deep" { // its column is where the parser gave up
				require.Equal(t, tc.column, fault.Column, err)
			}
		})
	}
}

func TestCaseS80AnEndlessExpressionStopsAtItsCost(t *testing.T) {
	nested := "true"
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		nested = "[1,2,3,4,5,6,7,8,9,10].all(" + name + ", " + nested + ")"
	}

	program, err := expression.CompileCondition(nested)
	require.NoError(t, err)

	// In a bubble no time passes while something computes: not the deadline but the cost stops it, on any machine.
	synctest.Test(t, func(t *testing.T) {
		_, err := program.EvalBool(t.Context(), input(""))
		require.ErrorContains(t, err, "cost limit")
	})
}

func TestAnInterruptedEvaluationSaysSo(t *testing.T) {
	program, err := expression.CompileCondition(`event.data.all(x, x == 1)`)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = program.EvalBool(ctx, input("["+strings.Repeat("1,", 5000)+"1]"))
	require.ErrorIs(t, err, context.Canceled)
}

func BenchmarkCostLimit(b *testing.B) {
	nested := "true"
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		nested = "[1,2,3,4,5,6,7,8,9,10].all(" + name + ", " + nested + ")"
	}

	program, err := expression.CompileCondition(nested)
	require.NoError(b, err)

	for b.Loop() {
		_, err = program.EvalBool(b.Context(), input(""))
		require.Error(b, err)
	}
}

func BenchmarkCondition(b *testing.B) {
	program, err := expression.CompileCondition(`event.data.ref == "refs/heads/main" && event.headers["x-github-event"] == "push"`)
	require.NoError(b, err)

	in := input(`{"ref":"refs/heads/main"}`)

	for b.Loop() {
		yes, err := program.EvalBool(b.Context(), in)
		require.NoError(b, err)
		require.True(b, yes)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`event.data.ref == "refs/heads/main"`)
	f.Add(`[1].all(x, has(event.data.a))`)
	f.Fuzz(func(t *testing.T, when string) {
		program, err := expression.CompileCondition(when)
		if err != nil {
			return
		}

		_, _ = program.EvalBool(t.Context(), input(`{"a":1}`)) // any answer is right, but no panic
	})
}
