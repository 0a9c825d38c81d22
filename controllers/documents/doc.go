// Package documents holds the controller that turns what people and senders declare into declared resources: the files of
// documents directories, the deliveries and messages whose declaration has an apply rule, and the actions of triggers and
// operators. Every object passes store.Admission. It also takes away what files no longer declare, under the deletion guard.
// It may import config, store, resources and controllers/chain; the composition root registers it.
package documents
