package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/api/apitest"
	"gateway/store"
)

func TestTheJournalIsReadAndFollowed(t *testing.T) {
	w := apitest.Start(t)
	note := func(class store.Class, source, id string) {
		require.NoError(t, w.Store.Journal().Append(store.Entry{Class: class, Source: source, Name: "n", EventID: id}))
	}
	ids := func(entries []store.Entry) []string {
		all := []string{}
		for _, e := range entries {
			all = append(all, e.EventID)
		}

		return all
	}

	for _, id := range []string{"1", "2", "3"} {
		note(store.ClassEvent, "webhook", id)
	}

	note(store.ClassRefused, "webhook", "4")
	note(store.ClassEvent, "file", "5")

	for text, test := range map[string]struct {
		query store.Query
		want  []string
	}{
		"all":               {store.Query{}, []string{"1", "2", "3", "4", "5"}},
		"a source":          {store.Query{Source: "file"}, []string{"5"}},
		"the newest":        {store.Query{Limit: 2}, []string{"4", "5"}},
		"classes":           {store.Query{Classes: []store.Class{store.ClassRefused, store.ClassDead}}, []string{"4"}},
		"after a number":    {store.Query{After: 3}, []string{"4", "5"}},
		"one event":         {store.Query{EventID: "2", Name: "n"}, []string{"2"}},
		"an object of none": {store.Query{Object: "VM/web-1"}, []string{}},
	} {
		t.Run(text, func(t *testing.T) {
			entries, err := w.Client.Journal(t.Context(), test.query, 0)
			require.NoError(t, err)
			require.Equal(t, test.want, ids(entries))
		})
	}

	waited := make(chan []string, 1)

	go func() {
		entries, err := w.Client.Journal(t.Context(), store.Query{Source: "domain", After: 5}, time.Minute)
		if err != nil {
			t.Error(err)
		}

		waited <- ids(entries)
	}()

	note(store.ClassEvent, "file", "6") // not what is waited for
	note(store.ClassEvent, "domain", "7")
	require.Equal(t, []string{"7"}, <-waited)

	entries, err := w.Client.Journal(t.Context(), store.Query{After: 7}, time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, entries)

	_, err = w.Client.Journal(t.Context(), store.Query{After: 7}, 2*time.Minute)
	require.EqualError(t, err, "wait is a duration up to 1m0s")
}

func TestWhatCanNotBeReadIsRefused(t *testing.T) {
	w := apitest.Start(t)
	c := overSocket(w.Path)

	for request, want := range map[string]int{
		"GET /v1/journal?after=x":   http.StatusBadRequest,
		"GET /v1/journal?limit=0":   http.StatusBadRequest,
		"GET /v1/nothing":           http.StatusNotFound,
		"PUT /v1/version":           http.StatusMethodNotAllowed,
		"POST /v1/power":            http.StatusBadRequest,
		"GET /v1/watch/pods":        http.StatusBadRequest,
		"GET /v1/watch/vm?selector": http.StatusOK,
	} {
		t.Run(request, func(t *testing.T) {
			require.Equal(t, want, c.status(t, request))
		})
	}
}
