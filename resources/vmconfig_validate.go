package resources

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of a VM. 512 CPUs is what libvirt's q35 takes at most without further options; 64 TiB is more than any host has
// and less than what overflows libvirt's KiB in sums.
const (
	MaxCPUs      = 512
	MinMemory    = 16 * MiB
	MaxMemory    = 64 * TiB
	MaxDisks     = 16
	MaxNICs      = 16
	maxText      = 1024
	maxCmdline   = 2048
	maxUserData  = 256 << 10
	maxGrace     = 24 * time.Hour
	maxDiskBytes = 64 * TiB
)

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

var macPattern = regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`)

// Validate implements Validator.
func (s *VMConfigSpec) Validate() (errs FieldErrors) {
	if fault := DescriptionFault(s.Description); fault != "" {
		errs.Add("spec.description", "%s", fault)
	}

	s.validateCompute(&errs)
	s.validateDisks(&errs)
	s.validateInterfaces(&errs)
	s.validatePlacement(&errs)

	if s.Shutdown.Grace.Std() > maxGrace {
		errs.Add("spec.shutdown.grace", "%s is more than %s", s.Shutdown.Grace, maxGrace)
	}

	if s.Boot != nil {
		if s.Boot.Kernel == "" {
			errs.Add("spec.boot.kernel", "a kernel is required")
		}

		validatePath("spec.boot.kernel", s.Boot.Kernel, &errs)
		validatePath("spec.boot.initrd", s.Boot.Initrd, &errs)

		if len(s.Boot.Cmdline) > maxCmdline || strings.ContainsFunc(s.Boot.Cmdline, isControl) {
			errs.Add("spec.boot.cmdline", "at most %d characters without control characters are allowed", maxCmdline)
		}
	}

	if a := s.Adopt; a != nil && a.UUID != "" && !uuidPattern.MatchString(a.UUID) {
		errs.Add("spec.adopt.uuid", "%q is not a UUID: write it as virsh domuuid does, in lower case", a.UUID)
	}

	if c := s.CloudInit; c != nil {
		validatePath("spec.cloudInit.userDataFile", c.UserDataFile, &errs)

		if c.UserData != "" && c.UserDataFile != "" {
			errs.Add("spec.cloudInit", "give either userData or userDataFile, not both")
		}

		if strings.HasPrefix(c.UserData, RedactedPrefix) {
			errs.Add("spec.cloudInit.userData", "this is what is shown in place of the user data: write the user data itself")
		}

		if len(c.UserData) > maxUserData {
			errs.Add("spec.cloudInit.userData", "%d bytes, at most %d are allowed", len(c.UserData), maxUserData)
		}
	}

	return errs
}

// DescriptionFault says what is wrong with the description of a VM; empty: nothing.
func DescriptionFault(text string) string {
	if len(text) > maxText {
		return fmt.Sprintf("%d characters, at most %d are allowed", len(text), maxText)
	}

	if strings.ContainsFunc(text, func(r rune) bool { return isControl(r) && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF }) {
		return "control characters are not allowed"
	}

	return ""
}

func (s *VMConfigSpec) validateCompute(errs *FieldErrors) {
	if s.CPUs < 1 || s.CPUs > MaxCPUs {
		errs.Add("spec.cpus", "%d is not between 1 and %d", s.CPUs, MaxCPUs)
	}

	if s.MaxCPUs != 0 && (s.MaxCPUs < s.CPUs || s.MaxCPUs > MaxCPUs) {
		errs.Add("spec.maxCpus", "%d is not between cpus (%d) and %d", s.MaxCPUs, s.CPUs, MaxCPUs)
	}

	validateMemory("spec.memory", s.Memory, errs)

	if s.MaxMemory != 0 {
		validateMemory("spec.maxMemory", s.MaxMemory, errs)

		if s.MaxMemory < s.Memory {
			errs.Add("spec.maxMemory", "%s is less than memory (%s)", s.MaxMemory, s.Memory)
		}
	}
}

func validateMemory(path string, m Size, errs *FieldErrors) {
	if m < MinMemory || m > MaxMemory {
		errs.Add(path, "%s is not between %s and %s", m, MinMemory, MaxMemory)
	}
}

func (s *VMConfigSpec) validateDisks(errs *FieldErrors) {
	if len(s.Disks) > MaxDisks {
		errs.Add("spec.disks", "%d disks, at most %d are allowed", len(s.Disks), MaxDisks)
	}

	seen := map[string]bool{}

	for i, d := range s.Disks {
		at := fmt.Sprintf("spec.disks[%d]", i)

		if err := ValidateName(d.Name); err != nil {
			errs.Add(at+".name", "%s", err)
		}

		if seen[d.Name] {
			errs.Add(at+".name", "%q is used twice", d.Name)
		}

		seen[d.Name] = true

		switch {
		case d.Path != "" && (d.Size != 0 || d.Image != ""):
			errs.Add(at, "give either path, or size and image, not both")
		case d.Path == "" && d.Size == 0 && d.Image == "":
			errs.Add(at, "one of size, image and path is required")
		}

		if d.Size != 0 && (d.Size < MiB || d.Size > maxDiskBytes || d.Size%512 != 0) {
			errs.Add(at+".size", "%s is not between %s and %s in blocks of 512 bytes", d.Size, MiB, maxDiskBytes)
		}

		if d.Image != "" {
			if err := ValidateName(d.Image); err != nil {
				errs.Add(at+".image", "%s", err)
			}
		}

		switch {
		case d.Format == "":
		case d.Path == "":
			errs.Add(at+".format", "only for a disk with a path: volumes are qcow2")
		case !slices.Contains([]string{"raw", "qcow2", "iso"}, d.Format):
			errs.Add(at+".format", "%q is not one of raw, qcow2, iso", d.Format)
		}

		if d.Clone != "" && d.Image == "" {
			errs.Add(at+".clone", "there is no image to clone")
		}

		if d.Path != "" && d.OnDelete == OnDeleteRemove {
			errs.Add(at+".onDelete", "a file that the gateway did not make is never removed: use keep")
		}

		validatePath(at+".path", d.Path, errs)
	}
}

func (s *VMConfigSpec) validateInterfaces(errs *FieldErrors) {
	if len(s.Interfaces) > MaxNICs {
		errs.Add("spec.interfaces", "%d interfaces, at most %d are allowed", len(s.Interfaces), MaxNICs)
	}

	macs := map[string]bool{}

	for i, n := range s.Interfaces {
		at := fmt.Sprintf("spec.interfaces[%d]", i)

		if err := ValidateName(n.Network); err != nil {
			errs.Add(at+".network", "%s", err)
		}

		if n.MAC != "" {
			switch {
			case !macPattern.MatchString(n.MAC):
				errs.Add(at+".mac", "%q is not a MAC address: write 52:54:00:12:34:56, in lower case", n.MAC)
			case strings.ContainsRune("13579bdf", rune(n.MAC[1])):
				errs.Add(at+".mac", "%q is a multicast address", n.MAC)
			case macs[n.MAC]:
				errs.Add(at+".mac", "%q is used twice", n.MAC)
			}

			macs[n.MAC] = true
		}

		if n.Address != "" {
			if a, err := netip.ParseAddr(n.Address); err != nil || !a.Is4() {
				errs.Add(at+".address", "%q is not an IPv4 address", n.Address)
			}
		}
	}
}

func (s *VMConfigSpec) validatePlacement(errs *FieldErrors) {
	p := s.Placement

	if p.Host != "" {
		if err := ValidateName(p.Host); err != nil {
			errs.Add("spec.placement.host", "%s", err)
		}

		if len(p.Selector) > 0 {
			errs.Add("spec.placement", "give either host or selector, not both")
		}
	}

	*errs = append(*errs, ValidateLabels("spec.placement.selector", p.Selector)...)
	*errs = append(*errs, ValidateLabels("spec.placement.apart", p.Apart)...)
	*errs = append(*errs, ValidateLabels("spec.placement.together", p.Together)...)
}

// validatePath checks that a path is absolute and clean; whether policy allows it is the admission's question.
func validatePath(field, p string, errs *FieldErrors) {
	if p == "" {
		return
	}

	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsFunc(p, isControl) {
		errs.Add(field, "%q is not a clean absolute path", p)
	}
}
