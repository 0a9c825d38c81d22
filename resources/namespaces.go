package resources

import "github.com/cosi-project/runtime/pkg/resource"

// Namespaces of the state. Each is a shard of its own: a burst in one does not lock another.
const (
	NamespaceVMs      resource.Namespace = "vms"
	NamespaceHosts    resource.Namespace = "hosts"
	NamespaceNetworks resource.Namespace = "networks"
	NamespaceEvents   resource.Namespace = "events"
	// NamespaceBridge holds the declarations of sources and triggers, and what the sources report.
	NamespaceBridge resource.Namespace = "bridge"
)

// Names of the controllers. A controller's name is its finalizer and its owner mark in every stored resource: a
// renamed controller would leave finalizers that nobody removes. They are frozen, and a test compares them.
const (
	ControllerDocuments = "documents"
	ControllerTrigger   = "trigger"
	ControllerPlacement = "placement"
	ControllerNetwork   = "network"
	ControllerVM        = "vm"
	ControllerImage     = "image"
	ControllerHost      = "host"
	ControllerRetention = "retention"
	ControllerResync    = "resync"

	SourceFiles         = "source-files"
	SourceSchedules     = "source-schedules"
	SourceWebhooks      = "source-webhooks"
	SourceSubscriptions = "source-subscriptions"
	SourceDomainEvents  = "source-domainevents"
)

// Finalizers that events and actions are created with, by those who create them: who must handle it has yet to take its own
// off. They are frozen too.
const (
	// FinalizerDocuments is on events with an apply rule, and on actions of every verb but publish.
	FinalizerDocuments = ControllerDocuments
	// FinalizerTrigger is on every message-like event.
	FinalizerTrigger = ControllerTrigger
	// FinalizerPublish is on actions that publish; the sink takes it off after the acknowledgement.
	FinalizerPublish = "sink-publish"
)

// APIVersion stands in every document.
const APIVersion = "gateway/v1alpha1"
