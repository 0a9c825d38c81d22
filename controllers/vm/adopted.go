package vm

import (
	"context"
	"fmt"
	"maps"

	"gateway/resources"
)

// adoptVolumes notes the volumes that a domain has when it is taken over from the gateway that made it. That gateway's pool
// is not looked into: the files are used as they are. It is on disk before the domain carries our mark: who takes the domain
// for one of ours from the beginning would make its volumes anew, empty.
func (p *pass) adoptVolumes(ctx context.Context) error {
	if a := p.spec.Adopt; a == nil || a.Gateway == "" || p.domain == nil || p.domain.Gateway != a.Gateway || p.isOurs(p.domain) {
		return nil
	}

	adopted := map[string]string{}

	for i := range p.spec.Disks {
		for _, d := range p.domain.Spec.Disks {
			if isVolume(&p.spec.Disks[i]) && d.Name == p.spec.Disks[i].Name && !d.Foreign && d.Path != "" {
				adopted[d.Name] = d.Path
			}
		}
	}

	if len(adopted) == 0 || maps.Equal(adopted, p.status.AdoptedDisks) {
		return nil
	}

	p.status.AdoptedDisks = adopted

	return p.flush(ctx)
}

// adoptedLeft names the adopted volumes, which stay when the VM goes.
func (p *pass) adoptedLeft() (left []string) {
	for _, disk := range resources.SortedKeys(p.status.AdoptedDisks) {
		left = append(left, fmt.Sprintf("file %s on host %s", p.status.AdoptedDisks[disk], p.status.Host))
	}

	return left
}
