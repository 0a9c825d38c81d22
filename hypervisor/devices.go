package hypervisor

import "slices"

// SeedDisk is the name of the CD-ROM that cloud-init reads. No disk of a document is called so, since names are in lower case. It is
// a field of its own: FieldCloudInit.
const SeedDisk = "cloudInit"

func isSeed(d DomainDisk) bool { return d.Name == SeedDisk && !d.Foreign }

// withoutSeed returns the disks that documents name.
func withoutSeed(disks []DomainDisk) []DomainDisk {
	return slices.DeleteFunc(slices.Clone(disks), isSeed)
}

// seedOf returns the seed alone; nothing where there is none.
func seedOf(disks []DomainDisk) []DomainDisk {
	return slices.DeleteFunc(slices.Clone(disks), func(d DomainDisk) bool { return !isSeed(d) })
}

// WithoutSeed returns the spec with the disks only that documents name; OnlySeed, with the seed as its only disk.
func (s *DomainSpec) WithoutSeed() *DomainSpec {
	c := *s
	c.Disks = withoutSeed(s.Disks)

	return &c
}

// OnlySeed is the opposite of WithoutSeed.
func (s *DomainSpec) OnlySeed() *DomainSpec {
	c := *s
	c.Disks = seedOf(s.Disks)

	return &c
}

// sameDisks reports whether two lists of disks are the same as far as somebody owns them: devices that no gateway made
// count only where the other list names their path.
func sameDisks(a, b []DomainDisk) bool {
	ownA, same := ownDisks(a, b)
	if !same {
		return false
	}

	ownB, same := ownDisks(b, a)

	return same && slices.Equal(ownA, ownB)
}

// ownDisks returns what of list is no device of others in either list. same is false where it names a device of others and
// wants it otherwise.
func ownDisks(list, other []DomainDisk) (own []DomainDisk, same bool) {
	for _, d := range list {
		if d.Foreign {
			continue
		}

		theirs := d.theirs(other)
		if theirs == nil {
			own = append(own, d)

			continue
		}

		// A CD-ROM is always read-only.
		if driverFormat(theirs.Format) != driverFormat(d.Format) || !d.CDROM && theirs.ReadOnly != d.ReadOnly {
			return nil, false
		}
	}

	return own, true
}

// theirs returns the device of others that a disk names; nil: none, as where there is one of its own name.
func (d DomainDisk) theirs(disks []DomainDisk) *DomainDisk {
	if slices.ContainsFunc(disks, func(o DomainDisk) bool { return !o.Foreign && o.Name == d.Name }) {
		return nil
	}

	i := slices.IndexFunc(disks, func(o DomainDisk) bool { return o.Foreign && o.Path == d.Path && o.CDROM == d.CDROM })
	if i < 0 {
		return nil
	}

	return &disks[i]
}

// driverFormat is the format as hypervisors keep it: the image of a CD-ROM is a raw one.
func driverFormat(format string) string {
	if format == "iso" {
		return "raw"
	}

	return format
}

// sameInterfaces is sameDisks for interfaces, which are known by their MAC.
func sameInterfaces(a, b []DomainInterface) bool {
	return slices.Equal(namedInterfaces(a, b), namedInterfaces(b, a))
}

// namedInterfaces returns list without the devices of others that the other list does not name.
func namedInterfaces(list, other []DomainInterface) (named []DomainInterface) {
	for _, n := range list {
		if n.Foreign && !slices.ContainsFunc(other, func(o DomainInterface) bool { return !o.Foreign && o.MAC == n.MAC }) {
			continue
		}

		n.Foreign = false
		named = append(named, n)
	}

	return named
}

// Claim makes devices of others those of a spec that names them as they are.
func (s *DomainSpec) Claim(by *DomainSpec) {
	for i, theirs := range s.Disks {
		for _, d := range by.Disks {
			if theirs.Foreign && !d.Foreign && d.theirs([]DomainDisk{theirs}) != nil && sameDisks([]DomainDisk{theirs}, []DomainDisk{d}) {
				s.Disks[i] = d
			}
		}
	}

	for i, theirs := range s.Interfaces {
		theirs.Foreign = false
		if slices.Contains(by.Interfaces, theirs) {
			s.Interfaces[i] = theirs
		}
	}
}

// KeepForeign adds to a spec the devices of others that an earlier one of the same domain has and it does not name, as
// hypervisors do.
func (s *DomainSpec) KeepForeign(before *DomainSpec) {
	for _, theirs := range before.Disks {
		if theirs.Foreign && !slices.ContainsFunc(s.Disks, func(d DomainDisk) bool { return d.Path == theirs.Path && d.CDROM == theirs.CDROM }) {
			s.Disks = append(s.Disks, theirs)
		}
	}

	for _, theirs := range before.Interfaces {
		if theirs.Foreign && !slices.ContainsFunc(s.Interfaces, func(n DomainInterface) bool { return n.MAC == theirs.MAC }) {
			s.Interfaces = append(s.Interfaces, theirs)
		}
	}
}
