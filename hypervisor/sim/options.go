package sim

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

// Capacity of a host whose URI says nothing else.
const (
	DefaultCPUs   = 1000
	DefaultMemory = 4 * resources.TiB
	DefaultDisk   = 64 * resources.TiB
)

// defaultShutdown is how long a guest takes to answer the power button.
const defaultShutdown = 200 * time.Millisecond

// options are what the URI of a host says: sim://NAME?boot=2s&state=FILE&….
type options struct {
	name string
	// boot is the time from the start of a domain until its guest has leases and hears the power button.
	boot time.Duration
	// shutdown is the time from the power button until the domain is off; never means a guest that does not care.
	shutdown time.Duration
	never    bool
	// state is the file that keeps the host across restarts; empty: none.
	state    string
	capacity resources.Capacity
	// enforce refuses to start a domain for which the host has no memory left.
	enforce bool
	// faults of all calls; the zero value is none.
	faults Faults
}

// parseURI reads the URI of a simulated host. What it does not know is an error, as a typing mistake would be otherwise
// a host that quietly behaves differently.
func parseURI(text string) (options, error) {
	o := options{
		shutdown: defaultShutdown,
		capacity: resources.Capacity{CPUs: DefaultCPUs, Memory: DefaultMemory, Disk: DefaultDisk},
	}

	u, err := url.Parse(text)
	if err != nil {
		return o, fmt.Errorf("error reading the URI: %w: %w", hypervisor.ErrInvalid, err)
	}

	if u.Scheme != "sim" || u.Host == "" || (u.Path != "" && u.Path != "/") || u.User != nil || u.Fragment != "" {
		return o, fmt.Errorf("error reading URI %q: %w: a simulated host is sim://NAME", text, hypervisor.ErrInvalid)
	}

	o.name = u.Host

	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return o, fmt.Errorf("error reading the parameters of URI %q: %w: %w", text, hypervisor.ErrInvalid, err)
	}

	for _, key := range resources.SortedKeys(query) {
		if len(query[key]) != 1 {
			return o, fmt.Errorf("error reading URI %q: %w: %s is given %d times", text, hypervisor.ErrInvalid, key, len(query[key]))
		}

		if err := o.set(key, query.Get(key)); err != nil {
			return o, fmt.Errorf("error reading parameter %s of URI %q: %w: %w", key, text, hypervisor.ErrInvalid, err)
		}
	}

	return o, nil
}

// set applies one parameter.
func (o *options) set(key, value string) (err error) {
	switch key {
	case "boot":
		o.boot, err = duration(value)
	case "shutdown":
		if o.never = value == "never"; !o.never {
			o.shutdown, err = duration(value)
		}
	case "state":
		o.state = value
	case "cpus":
		o.capacity.CPUs, err = strconv.Atoi(value)
	case "memory":
		o.capacity.Memory, err = resources.ParseSize(value)
	case "disk":
		o.capacity.Disk, err = resources.ParseSize(value)
	case "enforce":
		o.enforce, err = strconv.ParseBool(value)
	case "seed":
		o.faults.Seed, err = strconv.ParseUint(value, 10, 64)
	default:
		rate := o.faults.rate(key)
		if rate == nil {
			return fmt.Errorf("there is no such parameter")
		}

		*rate, err = strconv.ParseFloat(value, 64)
		if err == nil && !(*rate >= 0 && *rate <= 1) {
			err = fmt.Errorf("%s is not between 0 and 1", value)
		}
	}

	return err
}

func duration(text string) (time.Duration, error) {
	var d resources.Duration

	err := d.UnmarshalText([]byte(text))

	return d.Std(), err
}
