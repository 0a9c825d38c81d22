//go:build libvirt_dlopen

package libvirt

import (
	"fmt"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
)

// kindOf translates an event of libvirt's, and says its detail in words.
func kindOf(e *libvirt.DomainEventLifecycle) (hypervisor.EventKind, string) {
	switch e.Event {
	case libvirt.DOMAIN_EVENT_DEFINED:
		return hypervisor.EventDefined, word(definedDetails, e.Detail)
	case libvirt.DOMAIN_EVENT_UNDEFINED:
		return hypervisor.EventUndefined, word(undefinedDetails, e.Detail)
	case libvirt.DOMAIN_EVENT_STARTED:
		return hypervisor.EventStarted, word(startedDetails, e.Detail)
	case libvirt.DOMAIN_EVENT_SUSPENDED:
		return hypervisor.EventSuspended, word(suspendedDetails, e.Detail)
	case libvirt.DOMAIN_EVENT_PMSUSPENDED:
		return hypervisor.EventSuspended, "suspended by the guest"
	case libvirt.DOMAIN_EVENT_RESUMED:
		return hypervisor.EventResumed, word(resumedDetails, e.Detail)
	case libvirt.DOMAIN_EVENT_STOPPED:
		detail := word(stoppedDetails, e.Detail)
		if detail == reasonCrashed {
			return hypervisor.EventCrashed, detail
		}

		return hypervisor.EventStopped, detail
	case libvirt.DOMAIN_EVENT_SHUTDOWN:
		return hypervisor.EventShutdown, word(shutdownDetails, e.Detail)
	case libvirt.DOMAIN_EVENT_CRASHED:
		return hypervisor.EventCrashed, reasonCrashed
	default:
		return hypervisor.EventOther, fmt.Sprintf("event %d, detail %d", e.Event, e.Detail)
	}
}

var definedDetails = map[int]string{
	int(libvirt.DOMAIN_EVENT_DEFINED_ADDED):         "added",
	int(libvirt.DOMAIN_EVENT_DEFINED_UPDATED):       "updated",
	int(libvirt.DOMAIN_EVENT_DEFINED_RENAMED):       "renamed",
	int(libvirt.DOMAIN_EVENT_DEFINED_FROM_SNAPSHOT): "from snapshot",
}

var undefinedDetails = map[int]string{
	int(libvirt.DOMAIN_EVENT_UNDEFINED_REMOVED): "removed",
	int(libvirt.DOMAIN_EVENT_UNDEFINED_RENAMED): "renamed",
}

var startedDetails = map[int]string{
	int(libvirt.DOMAIN_EVENT_STARTED_BOOTED):        "booted",
	int(libvirt.DOMAIN_EVENT_STARTED_MIGRATED):      "migrated",
	int(libvirt.DOMAIN_EVENT_STARTED_RESTORED):      "restored",
	int(libvirt.DOMAIN_EVENT_STARTED_FROM_SNAPSHOT): "from snapshot",
	int(libvirt.DOMAIN_EVENT_STARTED_WAKEUP):        "wakeup",
	int(libvirt.DOMAIN_EVENT_STARTED_RECREATED):     "recreated",
}

var suspendedDetails = map[int]string{
	int(libvirt.DOMAIN_EVENT_SUSPENDED_PAUSED):          "paused",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_MIGRATED):        "migrated",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_IOERROR):         "I/O error",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_WATCHDOG):        "watchdog",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_RESTORED):        "restored",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_FROM_SNAPSHOT):   "from snapshot",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_API_ERROR):       "API error",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_POSTCOPY):        "postcopy",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_POSTCOPY_FAILED): "postcopy failed",
	int(libvirt.DOMAIN_EVENT_SUSPENDED_GUEST_SHUTDOWN):  "guest shutdown",
}

var resumedDetails = map[int]string{
	int(libvirt.DOMAIN_EVENT_RESUMED_UNPAUSED):        "unpaused",
	int(libvirt.DOMAIN_EVENT_RESUMED_MIGRATED):        "migrated",
	int(libvirt.DOMAIN_EVENT_RESUMED_FROM_SNAPSHOT):   "from snapshot",
	int(libvirt.DOMAIN_EVENT_RESUMED_POSTCOPY):        "postcopy",
	int(libvirt.DOMAIN_EVENT_RESUMED_POSTCOPY_FAILED): "postcopy failed",
}

var stoppedDetails = map[int]string{
	int(libvirt.DOMAIN_EVENT_STOPPED_SHUTDOWN):      "shutdown",
	int(libvirt.DOMAIN_EVENT_STOPPED_DESTROYED):     "destroyed",
	int(libvirt.DOMAIN_EVENT_STOPPED_CRASHED):       reasonCrashed,
	int(libvirt.DOMAIN_EVENT_STOPPED_MIGRATED):      "migrated",
	int(libvirt.DOMAIN_EVENT_STOPPED_SAVED):         "saved",
	int(libvirt.DOMAIN_EVENT_STOPPED_FAILED):        "failed",
	int(libvirt.DOMAIN_EVENT_STOPPED_FROM_SNAPSHOT): "from snapshot",
	int(libvirt.DOMAIN_EVENT_STOPPED_RECREATED):     "recreated",
}

var shutdownDetails = map[int]string{
	int(libvirt.DOMAIN_EVENT_SHUTDOWN_FINISHED): "finished",
	int(libvirt.DOMAIN_EVENT_SHUTDOWN_GUEST):    "guest",
	int(libvirt.DOMAIN_EVENT_SHUTDOWN_HOST):     "host",
}
