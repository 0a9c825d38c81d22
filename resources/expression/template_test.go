package expression_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources/expression"
)

func TestTemplates(t *testing.T) {
	const data = `{"after":"abc","n":3,"big":9007199254740993,"list":[1,"x"],"yaml":"a: b\n- c","quote":"\"}, x"}`

	for name, tc := range map[string]struct{ template, want string }{
		"no expression":                     {`{"a":[1.50,"b",null]}`, `{"a":[1.50,"b",null]}`},
		"a string that is one keeps types":  {`{"n":"${event.data.n}","l":"${event.data.list}"}`, `{"l":[1,"x"],"n":3}`},
		"a large number stays exact":        {`"${event.data.big}"`, `9007199254740993`},
		"inside a string it is text":        {`"v${event.data.n}-${event.data.after}"`, `"v3-abc"`},
		"what looks like YAML stays text":   {`{"d":"${event.data.yaml}"}`, `{"d":"a: b\n- c"}`},
		"quotes and braces add no member":   {`{"d":"<${event.data.quote}>"}`, `{"d":"<\"}, x>"}`},
		"braces of CEL do not end it":       {`"${ {'a': '}'}.a + \"{\" }"`, `"}{"`},
		"$${ is ${":                         {`"$${HOME} ${event.data.n}"`, `"${HOME} 3"`},
		"$${ alone":                         {`"echo $${HOME}"`, `"echo ${HOME}"`},
		"a single $ is itself":              {`"5$ $x {y}"`, `"5$ $x {y}"`},
		"names of members are left alone":   {`{"${event.id}":1}`, `{"${event.id}":1}`},
		"a time and a duration are text":    {`["${event.time}","${duration('90s')}"]`, `["2026-03-08T12:00:00Z","1m30s"]`},
		"a map becomes an object":           {`"${ {'a': [true, null, 1.5]} }"`, `{"a":[true,null,1.5]}`},
		"a member that an expression makes": {`{"metadata":{"labels":{"tag":"${event.data.after}"}}}`, `{"metadata":{"labels":{"tag":"abc"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			template, err := expression.Interpolate([]byte(tc.template))
			require.NoError(t, err)

			got, err := template.Eval(t.Context(), input(data))
			require.NoError(t, err)
			require.Equal(t, tc.want, string(got))
		})
	}
}

func TestCaseS80FaultsOfTemplatesNameTheirPlace(t *testing.T) {
	for template, want := range map[string]string{
		`{"a":{"b":["x ${event.nme}"]}}`: "a.b[0]: column 10: undefined field 'nme'",
		`{"a":"${event.id"}`:             "a: column 1: ${ without its }",
		`{"a":`:                          "error reading a template: unexpected EOF",
		`1 2`:                            "error reading a template: more than one JSON value",
	} {
		_, err := expression.Interpolate([]byte(template))
		require.EqualError(t, err, want)
	}
}

func TestCaseS80AMissingFieldStopsATemplate(t *testing.T) {
	template, err := expression.Interpolate([]byte(`{"a":"${event.data.ref}"}`))
	require.NoError(t, err)

	_, err = template.Eval(t.Context(), input(`{}`))
	require.EqualError(t, err, "error evaluating ${event.data.ref}: no such key: ref")
}

func TestValuesThatJSONCannotHoldAreRefused(t *testing.T) {
	for _, text := range []string{`${0.0/0.0}`, `${ {1: 2} }`, `${type(1)}`} {
		template, err := expression.InterpolateText(text)
		require.NoError(t, err)

		_, err = template.Eval(t.Context(), input(``))
		require.Error(t, err, text)
	}
}

func TestTextTemplates(t *testing.T) {
	template, err := expression.InterpolateText("deploys.${event.name}.${event.data.n}")
	require.NoError(t, err)

	got, err := template.EvalText(t.Context(), input(`{"n":7}`))
	require.NoError(t, err)
	require.Equal(t, "deploys.deploy.7", got)
}
