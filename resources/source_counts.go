package resources

import "time"

// SourceCounts is what a source counts, since the gateway started.
type SourceCounts struct {
	Received   int64 `json:"received" protobuf:"1"`
	Refused    int64 `json:"refused" protobuf:"2"`
	Duplicates int64 `json:"duplicates" protobuf:"3"`
	// LastEvent is the id of the newest event, LastReceived its time.
	LastEvent    string    `json:"lastEvent,omitempty" protobuf:"4"`
	LastReceived time.Time `json:"lastReceived,omitzero" protobuf:"5"`
	// LastError is the newest refusal, without secrets.
	LastError string `json:"lastError,omitempty" protobuf:"6"`
}
