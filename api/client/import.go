package client

import (
	"context"
	"encoding/json"
	"net/http"

	"gateway/api"
	"gateway/api/adoption"
)

// Imported are the documents that adopt existing domains, in the order in which they are to be applied.
type Imported struct {
	// Items are the documents, as JSON.
	Items   []json.RawMessage `json:"items"`
	Remarks []adoption.Remark `json:"remarks"`
	// Unasked says of each host that could not be asked why.
	Unasked []string `json:"unasked"`
}

// Import returns the documents that adopt existing domains. Nothing is changed by it.
func (c *Client) Import(ctx context.Context, request api.ImportRequest) (Imported, error) {
	var answer Imported
	err := c.call(ctx, http.MethodPost, "/v1/import", nil, request, &answer)

	return answer, err
}
