package expression

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// Limits of one expression. Looking at each of 10,000 elements costs about 50,000 units; 100,000 of them take a
// few tens of milliseconds, so that the cost limit is met long before the deadline, which is for what the cost does not count, and
// is long enough that a busy machine makes no failure of an evaluation.
const (
	maxLength    = 8 << 10
	maxDepth     = 64
	costLimit    = 100_000
	evalDeadline = time.Second
	// interruptEvery is after how many steps of a comprehension the deadline is looked at.
	interruptEvery = 100
)

// Program is a compiled expression. It may be evaluated by several goroutines at once.
type Program struct {
	text    string
	program cel.Program
	objects bool
}

// Error is a fault in the text of an expression.
type Error struct {
	// Path to the string within a template; empty for an expression of its own.
	Path string
	// Line and Column of the fault in the text, from 1.
	Line, Column int
	Message      string
}

func (e *Error) Error() string {
	at := fmt.Sprintf("column %d", e.Column)
	if e.Line > 1 {
		at = fmt.Sprintf("line %d, %s", e.Line, at)
	}

	if e.Path != "" {
		at = e.Path + ": " + at
	}

	return at + ": " + e.Message
}

// environment declares the variables; making it costs milliseconds, so there is one.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		ext.NativeTypes(reflect.TypeFor[Event](), reflect.TypeFor[Object](), ext.ParseStructTags(true)),
		cel.Variable("event", cel.ObjectType("expression.Event")),
		cel.Variable(variableObjects, cel.ListType(cel.ObjectType("expression.Object"))),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserExpressionSizeLimit(maxLength),
		cel.CrossTypeNumericComparisons(true),
		ext.Strings(),
	)
})

// Compile parses and checks an expression. A fault in it is an *Error.
func Compile(text string) (*Program, error) {
	program, _, err := compile(text)

	return program, err
}

// CompileCondition is Compile for an expression that must say true or false.
func CompileCondition(text string) (*Program, error) {
	program, output, err := compile(text)
	if err != nil {
		return nil, err
	}

	if !output.IsExactType(cel.BoolType) && !output.IsExactType(cel.DynType) {
		return nil, &Error{Line: 1, Column: 1, Message: fmt.Sprintf("the expression is a %s, not true or false", output)}
	}

	return program, nil
}

func compile(text string) (*Program, *cel.Type, error) {
	if len(text) > maxLength {
		return nil, nil, &Error{Line: 1, Column: 1, Message: fmt.Sprintf("%d bytes, at most %d are allowed", len(text), maxLength)}
	}

	env, err := environment()
	if err != nil {
		return nil, nil, fmt.Errorf("error declaring the variables of expressions: %w", err)
	}

	checked, issues := env.Compile(text)
	if issues != nil && len(issues.Errors()) > 0 {
		first := issues.Errors()[0]

		return nil, nil, &Error{Line: max(first.Location.Line(), 1), Column: max(first.Location.Column()+1, 1), Message: first.Message}
	}

	program, err := env.Program(checked, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(interruptEvery), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, nil, &Error{Line: 1, Column: 1, Message: err.Error()}
	}

	return &Program{text: text, program: program, objects: refersTo(checked, variableObjects)}, checked.OutputType(), nil
}

// variableObjects is the name of the variable that holds the objects.
const variableObjects = "objects"

// refersTo reports whether an expression has a variable in it. It is true as well where a macro names its own one so.
func refersTo(checked *cel.Ast, variable string) bool {
	for _, reference := range checked.NativeRep().ReferenceMap() {
		if reference.Name == variable {
			return true
		}
	}

	return false
}

// UsesObjects reports whether the expression looks at objects, which have to be read for it.
func (p *Program) UsesObjects() bool { return p.objects }

// String is the text of the expression.
func (p *Program) String() string { return p.text }

// EvalBool evaluates the expression; one that is neither true nor false is an error. A missing member is the error
// "no such key: NAME".
func (p *Program) EvalBool(ctx context.Context, input Input) (bool, error) {
	result, err := p.eval(ctx, input)
	if err != nil {
		return false, err
	}

	yes, ok := result.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the expression is a %s, not true or false", result.Type().TypeName())
	}

	return yes, nil
}

func (p *Program) eval(ctx context.Context, input Input) (ref.Val, error) {
	limited, cancel := context.WithTimeout(ctx, evalDeadline)
	defer cancel()

	result, _, err := p.program.ContextEval(limited, map[string]any{"event": input.Event, variableObjects: input.Objects})

	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted: %w", ctx.Err())
	case limited.Err() != nil:
		return nil, fmt.Errorf("not finished after %s", evalDeadline)
	default:
		return nil, errors.New(strings.TrimSpace(err.Error()))
	}
}
