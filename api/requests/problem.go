package requests

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"gateway/api"
)

// Codes of errors, beside the reasons of package resources (Conflict, PolicyRefused, UnauthenticatedBroker, …).
const (
	CodeInvalid  = "Invalid"
	CodeNotFound = "NotFound"
	CodeTooLarge = "TooLarge"
	CodeInternal = "Internal"
)

// refusal is an error with its code.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return r.message }

func refuse(code, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

// maxDescription bounds the header with the description; all of it is in the body.
const maxDescription = 1024

// fail answers with an error as micro services do: the headers Nats-Service-Error-Code and Nats-Service-Error, and as the
// body the problem as the socket has it, with a line for each fault.
func (s *Service) fail(v verb, r micro.Request, err error) {
	problem, status, expected := api.ProblemOf(err)
	code := problem.Reason

	if refused, ok := errors.AsType[*refusal](err); ok {
		code, expected = refused.code, true
	}

	if !expected {
		s.Logger.Warn("a request failed", zap.String("verb", v.name), zap.Error(err))
	}

	ofStatus := map[int]string{http.StatusNotFound: CodeNotFound, http.StatusInternalServerError: CodeInternal}
	problem.Reason = cmp.Or(code, ofStatus[status], CodeInvalid)

	body, err := json.Marshal(problem)
	if err != nil {
		body = nil // strings can always be encoded
	}

	if r.Reply() == "" {
		return // nobody to answer
	}

	s.reply(v, r, &nats.Msg{Data: body, Header: nats.Header{
		micro.ErrorHeader:     []string{oneLine(strings.Join(problem.Errors, "; "))},
		micro.ErrorCodeHeader: []string{problem.Reason},
	}})
}

// oneLine makes a header value of a text: no line breaks, bounded.
func oneLine(text string) string {
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}

		return r
	}, text)

	return strings.ToValidUTF8(line[:min(len(line), maxDescription)], "")
}
