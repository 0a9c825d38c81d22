package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"
)

// send declares a VM by the webhook, changes it, or takes it away.
func (w *world) send() {
	name := ciName(w.rand.IntN(ciCount))
	w.model.version++

	d := randomVM(w.rand, name, w.model.version)
	gone := w.model.ci[name] != nil && w.rand.IntN(3) == 0

	if gone {
		d["metadata"].(object)["annotations"] = object{"delete": "true"}
	}

	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}

	id := w.deliver("inbox", text, fmt.Sprintf("key-%d", w.model.version))
	w.trace.add("sent %s (gone %v) as %q: %s %s", name, gone, id, d["metadata"], text)

	if id == "" {
		w.model.unsure[name] = true

		return
	}

	w.model.ci[name], w.model.ciEvent[name], w.model.unsure[name] = d, id, false
	if gone {
		w.model.ci[name] = nil
	}
}

// sendLook sends an event that has a target and a trigger.
func (w *world) sendLook() {
	w.model.version++
	id := w.deliver("look", []byte(`{"a":1}`), fmt.Sprintf("key-%d", w.model.version))
	w.trace.add("sent a look: %q", id)
}

// tries is how often a sender repeats a delivery before it gives up.
const tries = 12

// deliver sends until the delivery is acknowledged, as senders do, and returns the event's id; empty: it never was.
func (w *world) deliver(route string, body []byte, key string) string {
	for range tries {
		code, id := w.post(route, body, key)
		if code == http.StatusAccepted {
			w.pass(time.Millisecond) // no two deliveries come in one instant: their order is that of their times
			w.model.acked = append(w.model.acked, ackedEvent{route, id, key})

			return id
		}

		w.pass(time.Duration(1+w.rand.IntN(10)) * time.Second)
	}

	return ""
}

// post makes one request. Status 0 is no answer: the process was killed.
func (w *world) post(route string, body []byte, key string) (code int, id string) {
	p := w.process

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/hooks/"+route, bytes.NewReader(body))
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")

	recorder, done := httptest.NewRecorder(), make(chan struct{})

	go func() {
		defer close(done)
		p.hooks.Handler().ServeHTTP(recorder, request)
	}()

	select {
	case <-done:
	case <-p.gate.killed:
		cancel()
		<-done
	}

	if !p.gate.lives() {
		w.pass(time.Millisecond) // it is started again

		return 0, ""
	}

	var answer struct {
		ID        string `json:"id"`
		Duplicate bool   `json:"duplicate"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		w.breakage("the answer %q can't be read", recorder.Body)
	}

	if recorder.Code != http.StatusAccepted {
		w.trace.add("post %s %s: %d %s", route, key, recorder.Code, recorder.Body)
	}

	return recorder.Code, answer.ID
}
