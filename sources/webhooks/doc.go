// Package webhooks takes events in over HTTP: POST /hooks/NAME. A Webhook document is a route; the controller compiles it,
// so that a route is added, changed or removed without a restart, and Server answers the requests, over rebuilds of the
// runtime. An event is answered 202 only once it is durable. It imports store, resources and sources/intake; the
// composition root runs both parts.
package webhooks
