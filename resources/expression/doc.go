// Package expression compiles and evaluates the CEL expressions of triggers: the condition in `when`, and the templates
// whose strings hold ${CEL}. Everything that can be found without an event (syntax, types, unknown attributes) is an error of
// Compile with the column; evaluation is bounded in cost and time. It knows nothing of resources, which import it for
// validation; controllers/trigger evaluates.
package expression
