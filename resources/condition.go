package resources

import "time"

// ConditionStatus is whether a condition holds.
type ConditionStatus string

// Statuses of a condition.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// Types of the conditions of a VM.
const (
	ConditionAccepted     = "Accepted"
	ConditionPlaced       = "Placed"
	ConditionNetworkReady = "NetworkReady"
	ConditionImageReady   = "ImageReady"
	ConditionConverged    = "Converged"
	// ConditionConnected is the one condition of a host.
	ConditionConnected = "Connected"
	// ConditionReady is the one condition of networks, images and sources.
	ConditionReady = "Ready"
)

// Condition is one aspect of an object, with the reason why it holds or not.
type Condition struct {
	Type   string          `json:"type" protobuf:"1"`
	Status ConditionStatus `json:"status" protobuf:"2"`
	// Reason is a CamelCase constant of this package.
	Reason  string `json:"reason" protobuf:"3"`
	Message string `json:"message,omitempty" protobuf:"4"`
	// Since is when Status last changed.
	Since time.Time `json:"since" protobuf:"5"`
}

// SetCondition sets the condition of c's type and keeps Since while the status stays.
func SetCondition(conditions []Condition, c Condition, now time.Time) []Condition {
	for i, old := range conditions {
		if old.Type != c.Type {
			continue
		}

		c.Since = old.Since
		if old.Status != c.Status || c.Since.IsZero() {
			c.Since = now
		}

		conditions[i] = c

		return conditions
	}

	c.Since = now

	return append(conditions, c)
}

// FindCondition returns the condition of a type; nil where there is none.
func FindCondition(conditions []Condition, typ string) *Condition {
	for i := range conditions {
		if conditions[i].Type == typ {
			return &conditions[i]
		}
	}

	return nil
}

// Reasons of conditions. Users and their scripts read them; the README lists them.
const (
	ReasonAccepted           = "Accepted"
	ReasonConflict           = "Conflict"
	ReasonHeld               = "Held"
	ReasonImmutable          = "Immutable"
	ReasonPlaced             = "Placed"
	ReasonPending            = "Pending"
	ReasonUnschedulable      = "Unschedulable"
	ReasonNoHosts            = "NoHosts"
	ReasonNotEnoughCapacity  = "NotEnoughCapacity"
	ReasonMoving             = "Moving"
	ReasonNotNeeded          = "NotNeeded"
	ReasonNetworkReady       = "NetworkReady"
	ReasonNetworkMissing     = "NetworkMissing"
	ReasonNetworkFailed      = "NetworkFailed"
	ReasonAddressInUse       = "AddressInUse"
	ReasonMACInUse           = "MACInUse"
	ReasonAddressExhausted   = "AddressPoolExhausted"
	ReasonImageReady         = "ImageReady"
	ReasonImageMissing       = "ImageMissing"
	ReasonImageFetching      = "ImageFetching"
	ReasonImageInvalid       = "ImageInvalid"
	ReasonDiskMissing        = "DiskMissing"
	ReasonConverged          = "Converged"
	ReasonStarting           = "Starting"
	ReasonStopping           = "Stopping"
	ReasonIOError            = "IOError"
	ReasonDeleting           = "Deleting"
	ReasonRestartRequired    = "RestartRequired"
	ReasonCrashLoop          = "CrashLoop"
	ReasonNameTaken          = "NameTaken"
	ReasonHostUnreachable    = "HostUnreachable"
	ReasonHostConnected      = "Connected"
	ReasonHostConnecting     = "Connecting"
	ReasonHypervisorFailed   = "HypervisorFailed"
	ReasonNotSupported       = "NotSupported"
	ReasonBusy               = "Busy"
	ReasonWaiting            = "Waiting"
	ReasonInUse              = "InUse"
	ReasonReady              = "Ready"
	ReasonInvalid            = "Invalid"
	ReasonUnreadable         = "Unreadable"
	ReasonMassDeletion       = "MassDeletion"
	ReasonDisconnected       = "Disconnected"
	ReasonBrokerNoAuth       = "UnauthenticatedBroker"
	ReasonUnauthenticated    = "Unauthenticated"
	ReasonPolicyRefused      = "PolicyRefused"
	ReasonProtected          = "Protected"
	ReasonNotOwned           = "NotOwned"
	ReasonStaleRevision      = "StaleRevision"
	ReasonCatchingUp         = "CatchingUp"
	ReasonLibvirtUnavailable = "LibvirtUnavailable"
)
