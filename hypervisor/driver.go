package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"gateway/resources"
)

// Errors that callers tell apart with errors.Is. Drivers wrap them with what was being done to which object.
var (
	// ErrNotFound says that the object does not exist: a state, not a failure.
	ErrNotFound = errors.New("not found")
	// ErrUnreachable says that the hypervisor could not be asked, or did not answer in time: nothing is known. It never
	// leads to a create, a delete, a start or a move.
	ErrUnreachable = errors.New("host unreachable")
	// ErrConnectionLost is the ErrUnreachable after which no call on this connection can succeed. The pool connects anew.
	ErrConnectionLost = fmt.Errorf("connection lost: %w", ErrUnreachable)
	// ErrForeign says that an object with this name exists and is not ours.
	ErrForeign = errors.New("exists and is not managed by this gateway")
	// ErrBusy says that the object is in the middle of another operation: look again later.
	ErrBusy = errors.New("busy")
	// ErrInvalid says that the hypervisor refuses what was asked for, and will refuse it again.
	ErrInvalid = errors.New("refused by the hypervisor")
	// ErrBroken says that a guest that is on can't go on: its hypervisor failed under it, and only a fresh start helps.
	ErrBroken = errors.New("the guest can't go on")
	// ErrUnsupported says that this hypervisor can't do what was asked for.
	ErrUnsupported = errors.New("not supported by the hypervisor")
)

// Deadlines of calls through the pool. Reads answer from the daemon's memory; a step may wait for QEMU. Domains has the
// time of a step too: libvirt takes a call for each domain, 10,000 of them 4 s of two CPUs that have nothing else to do. After the
// deadline the call's goroutine is abandoned, because libvirt can't cancel a call, and ErrUnreachable is returned.
const (
	ReadTimeout = 5 * time.Second
	StepTimeout = 30 * time.Second
)

// Driver is the connection to one hypervisor. Every method is idempotent, safe for concurrent use and honours its
// context. A domain is ours when its metadata carries the gateway's id; a method that changes a domain or a network that
// is not ours returns ErrForeign and changes nothing.
type Driver interface {
	// Info describes the hypervisor.
	Info(ctx context.Context) (Info, error)
	// Inspect returns what a document that adopts the domain can say of it, and what it can't.
	Inspect(ctx context.Context, uuid string) (Inspection, error)
	// Domains returns all domains, foreign ones too, with their observed state, in one call.
	Domains(ctx context.Context) ([]Domain, error)
	// Domain returns one domain by UUID, ErrNotFound where there is none.
	Domain(ctx context.Context, uuid string) (Domain, error)
	// DomainByName returns one domain by name, ErrNotFound where there is none.
	DomainByName(ctx context.Context, name string) (Domain, error)
	// DefineDomain creates the persistent definition, or changes what differs in the owned fields. Of a domain that is on it
	// brings into effect what can be without a restart. It reports what it changed, and which fields need a restart to take
	// effect. It never starts a domain.
	DefineDomain(ctx context.Context, spec DomainSpec) (DefineResult, error)
	// PlanDomain returns what DefineDomain would do, and changes nothing.
	PlanDomain(ctx context.Context, spec DomainSpec) (DomainPlan, error)
	// StartDomain starts a defined domain, paused if asked. Starting a running one is success and does nothing.
	StartDomain(ctx context.Context, uuid string, paused bool) error
	// RequestShutdown asks the guest by ACPI, and returns at once. A domain that is off is success.
	RequestShutdown(ctx context.Context, uuid string) error
	// ForceOff ends the domain at once. A domain that is off is success.
	ForceOff(ctx context.Context, uuid string) error
	// Pause and Resume change a running domain; in the wanted state already is success. Resume fails with ErrBroken where
	// only a fresh start helps.
	Pause(ctx context.Context, uuid string) error
	Resume(ctx context.Context, uuid string) error
	// DiskTrouble says in words what keeps the disks of a domain, which its hypervisor paused for an I/O error, from being
	// written; empty: nothing that is known of.
	DiskTrouble(ctx context.Context, uuid string) (string, error)
	// UndefineDomain removes the definition with all that belongs to it (NVRAM, managed save, snapshot metadata), of a
	// domain that is off. A domain that does not exist is success.
	UndefineDomain(ctx context.Context, uuid string) error
	// Addresses returns what lease, agent and ARP say of the domain's addresses.
	Addresses(ctx context.Context, uuid string) ([]resources.Address, error)

	// Console attaches to the serial console of one of our domains that is on, in place of somebody else where that is forced. It
	// fails with ErrOff, ErrNoConsole or ErrAttached, and lasts until it is closed, whatever becomes of ctx.
	Console(ctx context.Context, uuid string, force bool) (Console, error)

	// Networks returns all networks.
	Networks(ctx context.Context) ([]Network, error)
	// EnsureNetwork makes the network exist, active, with exactly these hosts, without a restart of it where only hosts
	// differ. A network of this name that is not ours is ErrForeign.
	EnsureNetwork(ctx context.Context, spec NetworkSpec) (changed bool, err error)
	// RemoveNetwork removes one of our networks. One that does not exist is success.
	RemoveNetwork(ctx context.Context, name string) error

	// EnsureVolume makes the volume of a disk exist, as a whole or not at all, and returns its path. An existing one is
	// grown to Size and never shrunk, overwritten or replaced. A copy that takes long is ErrBusy until it is done.
	EnsureVolume(ctx context.Context, spec VolumeSpec) (path string, created bool, err error)
	// RemoveVolume removes a volume that we made. One that does not exist is success.
	RemoveVolume(ctx context.Context, name string) error

	// Images returns the files of images that this gateway keeps on the host, those that were not stored to their end too.
	Images(ctx context.Context) ([]ImageFile, error)
	// StoreImage stores the file of an image: what content returns, until io.EOF. Another error of content is returned, and
	// nothing is left. What an interrupted call has left is made anew, and a complete file is kept as it is. While the
	// content comes it has no deadline.
	StoreImage(ctx context.Context, spec ImageSpec, content io.Reader) (ImageFile, error)
	// RemoveImage removes the file of an image. One that does not exist is success; ErrInUse while volumes start from it.
	RemoveImage(ctx context.Context, name string) error
	// ReadFile describes a file of the host that is not ours, ErrNotFound where there is none, and writes what is in it to
	// content, unless that is nil. While the content goes it has no deadline.
	ReadFile(ctx context.Context, path string, content io.Writer) (File, error)

	// Events calls fn for every event until ctx ends or the connection is lost, which is the returned error. fn only notes
	// the event: it must not block. ready is called once the subscription stands: what is listed after it misses nothing.
	Events(ctx context.Context, ready func(), fn func(Event)) error
	// Close releases the connection. Calls under way return ErrUnreachable.
	Close() error
}

// Opener connects to the hypervisor at a URI. gateway is the gateway's id, which marks what is ours. It may take as long
// as ctx lasts.
type Opener func(ctx context.Context, uri, gateway string) (Driver, error)

// Info describes a hypervisor.
type Info struct {
	// Driver is the hypervisor's own name: QEMU, TEST, SIM.
	Driver  string
	Version string
	Arch    string
	// KVM reports whether the host can run domains of type kvm.
	KVM      bool
	Hostname string
	Capacity resources.Capacity
}

// ReasonIOError is the reason of a domain that its hypervisor paused because a disk could not be read or written.
const ReasonIOError = "I/O error"

// Passing reports whether a paused domain is so for a moment only, by an operation that ends by itself: a save, a snapshot, a
// migration, a start. Nobody else resumes it meanwhile.
func (d *Domain) Passing() bool {
	return d.State == resources.StatePaused && slices.Contains(passing, d.Reason)
}

// passing are the reasons of domains that are paused for a moment.
var passing = []string{"migration", "save", "dump", "snapshot", "shutting down", "starting up"}

// State of a domain, as resources.VMStatusSpec has it.
type State = string

// Domain is one domain as it was observed.
type Domain struct {
	Name, UUID string
	State      State
	// Reason is the hypervisor's own word for why it is in that state: shutdown (the guest powered off), destroyed,
	// crashed, failed, saved, booted, unknown; user, ReasonIOError and others of one that is paused.
	Reason string
	// Gateway is the id of the gateway whose mark the domain carries, VM the name of the VM; both empty without a mark.
	Gateway, VM string
	// Revision is the spec revision that the definition was made from.
	Revision int64
	// Spec holds the owned fields of the inactive definition, in the hypervisor's normalised form.
	Spec DomainSpec
	// RestartRequired lists the owned fields in which the running domain differs from its definition.
	RestartRequired []string
	// WaitsForGuest lists the owned fields that are defined and that the running guest has not gone along with: memory that
	// it has not given back. A restart would not change it.
	WaitsForGuest []string
	Autostart     bool
	// Transient reports that it is on without a definition, which somebody took away: it would vanish when it goes off.
	Transient bool
	// Definition is the whole definition in the driver's own form, for DomainSpec.Last; empty where there is nothing in it that is
	// not in Spec, and of domains that are not ours. Domains leaves it out.
	Definition []byte
}

// DomainSpec is what we own of a domain's definition. Only these fields are compared.
type DomainSpec struct {
	Name, UUID  string
	VM          string
	Revision    int64
	Description string
	CPUs        int
	MaxCPUs     int
	Memory      resources.Size
	MaxMemory   resources.Size
	Firmware    string
	Boot        *resources.Boot
	Disks       []DomainDisk
	Interfaces  []DomainInterface
	Graphics    string
	GuestAgent  bool
	// Adopt allows taking over a domain that carries no mark; AdoptFrom, one that carries the mark of the gateway of this id.
	Adopt     bool
	AdoptFrom string
	// Insist brings a running domain to its definition in everything that needs no restart. Otherwise only what is changed by
	// the call is tried: a guest that does not go along would be asked at every look.
	Insist bool
	// Last is the Definition that was seen last of a domain that is gone: the new one begins with it, so that what nobody declared
	// survives. Of a domain that exists it says nothing.
	Last []byte
}

// DomainDisk is one disk: a file on the host.
type DomainDisk struct {
	Name string
	Path string
	// Format is qcow2, raw or iso.
	Format   string
	ReadOnly bool
	CDROM    bool
	// Foreign is set in what was observed: no gateway made the device. It is left alone, unless a spec names its path.
	Foreign bool
}

// DomainInterface is one network interface, on a libvirt network or on a bridge.
type DomainInterface struct {
	MAC     string
	Network string
	Bridge  string
	// Foreign is set in what was observed: no gateway made the device. It is left alone, unless a spec names its MAC.
	Foreign bool
}

// Inspection is a domain as a document can adopt it.
type Inspection struct {
	// Domain has in its Spec only the devices that a document can name.
	Domain
	// Beyond lists what the definition has besides: it stays as it is when the domain is adopted.
	Beyond []string
}

// DefineResult is what DefineDomain did.
type DefineResult struct {
	// Created reports that there was no such domain before.
	Created bool
	// Anew says in words why the domain does not begin with DomainSpec.Last; empty: it does, or there was none.
	Anew string
	// Changed lists the owned fields that were changed, empty when nothing differed.
	Changed []string
	// Live is what was done to the running domain so that no restart is needed. A device that the guest has to let go of is
	// gone when Domain does not say any more that its field needs a restart.
	Live []LiveChange
	// Refused says in words what of it the hypervisor refused to do live.
	Refused []string
	// RestartRequired lists the owned fields that take effect at the next start only, or once the guest goes along.
	RestartRequired []string
}

// DomainPlan is what DefineDomain would do.
type DomainPlan struct {
	// Exists reports whether there is such a domain, On whether it runs, paused too.
	Exists, On bool
	// Foreign reports that the domain is not ours: DefineDomain would refuse.
	Foreign bool
	// Changed lists the owned fields in which the definition would be changed.
	Changed []string
	// Changes are what it takes until a domain that is on has them all.
	Changes []LiveChange
	// Observed is the domain as it is, as Domain returns it.
	Observed Domain
}

// LeaseTime is how long an address on a network of the gateway's stays with a guest that is gone, at most: the shortest time
// that dnsmasq takes. A guest that runs renews every minute, a packet each way.
const LeaseTime = 2 * time.Minute

// NetworkSpec is a libvirt network that the gateway makes.
type NetworkSpec struct {
	// Name on the hypervisor.
	Name   string
	UUID   string
	Mode   string // resources.NetworkNAT or NetworkIsolated
	Subnet string
	// First and Last bound the DHCP range.
	First, Last string
	Domain      string
	Bridge      string
	Hosts       []NetworkHost
}

// NetworkHost is a static DHCP entry.
type NetworkHost struct {
	MAC, Address, Name string
}

// Network is one network as it was observed.
type Network struct {
	Name, UUID string
	Active     bool
	Bridge     string
	// Ours reports whether this gateway made it.
	Ours  bool
	Hosts []NetworkHost
}

// VolumeSpec is a volume that the gateway makes for a disk.
type VolumeSpec struct {
	// Name of the volume: VM.DISK.qcow2, unique on the host.
	Name string
	Size resources.Size
	// Backing is the path of the image that it starts from; empty: an empty disk.
	Backing       string
	BackingFormat string
	// Copy makes it a copy of the image, which does not need the image any more.
	Copy bool
	// Content makes it a raw file of exactly these bytes, instead of a disk.
	Content []byte
	// MustExist refuses to make a volume, with ErrNotFound: a disk that held data is never replaced by an empty one.
	MustExist bool
}

// EventKind is what happened to a domain.
type EventKind string

// Kinds of events.
const (
	EventDefined   EventKind = "defined"
	EventUndefined EventKind = "undefined"
	EventStarted   EventKind = "started"
	EventSuspended EventKind = "suspended"
	EventResumed   EventKind = "resumed"
	EventStopped   EventKind = "stopped"
	EventShutdown  EventKind = "shutdown"
	EventCrashed   EventKind = "crashed"
	EventRebooted  EventKind = "rebooted"
	EventOther     EventKind = "other"
)

// Event says that something happened to a domain: look again.
type Event struct {
	Kind       EventKind
	Domain     string
	DomainUUID string
	Detail     string
	Time       time.Time
}
