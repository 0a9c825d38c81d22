// Package actions sends the messages that triggers ask for: Actions with the verb publish. Taking the sink's finalizer off
// an Action is the mark that its message was acknowledged. The composition root runs it.
package actions
