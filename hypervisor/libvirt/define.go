//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

// DefineDomain implements hypervisor.Driver.
func (d *driver) DefineDomain(ctx context.Context, spec hypervisor.DomainSpec) (hypervisor.DefineResult, error) {
	r := request{doing: "defining domain", subject: spec.Name, lane: d.writes, key: domainKey(spec.UUID)}

	return call(ctx, d, r, func(c *libvirt.Connect) (hypervisor.DefineResult, error) {
		wanted := spec.Normalised()

		dom, err := c.LookupDomainByUUIDString(spec.UUID)
		if err == nil {
			defer freeDomain(dom)

			return d.redefine(c, dom, &wanted, &spec)
		}

		if !isCode(err, libvirt.ERR_NO_DOMAIN) {
			return hypervisor.DefineResult{}, err
		}

		return d.create(c, &wanted, spec.Last)
	})
}

func domainKey(uuid string) string { return "domain/" + uuid }

func (d *driver) markOf(spec *hypervisor.DomainSpec) definition.Mark {
	return definition.Mark{Gateway: d.gateway, VM: spec.VM, Revision: spec.Revision}
}

// create defines a domain that does not exist; last is the definition that was seen last of it, if any.
func (d *driver) create(c *libvirt.Connect, wanted *hypervisor.DomainSpec, last []byte) (hypervisor.DefineResult, error) {
	var none hypervisor.DefineResult

	if err := d.nameIsFree(c, wanted.Name); err != nil {
		return none, err
	}

	fresh, err := definition.New(wanted, d.madeOf(), d.markOf(wanted))
	if err != nil {
		return none, err
	}

	anew := ""

	if len(last) > 0 {
		err := d.defineAgain(c, fresh, wanted, last)
		if err == nil {
			return hypervisor.DefineResult{Created: true}, nil
		}

		if class := classify(err); errors.Is(class, hypervisor.ErrUnreachable) || errors.Is(class, hypervisor.ErrBusy) {
			return none, err
		}

		anew = "the definition that was seen last can't be used: " + classify(err).Error()
	}

	if err := define(c, fresh); err != nil {
		return none, err
	}

	return hypervisor.DefineResult{Created: true, Anew: anew}, nil
}

// defineAgain defines a domain that begins with the definition that was seen last of it.
func (d *driver) defineAgain(c *libvirt.Connect, fresh *libvirtxml.Domain, wanted *hypervisor.DomainSpec, last []byte) error {
	doc, err := definition.Again(last, fresh, wanted, d.madeOf(), d.markOf(wanted))
	if err != nil {
		return err
	}

	return define(c, doc)
}

// nameIsFree returns an error that says whose a name is. libvirt would refuse it too, but not tell the cases apart.
func (d *driver) nameIsFree(c *libvirt.Connect, name string) error {
	other, err := c.LookupDomainByName(name)
	if isCode(err, libvirt.ERR_NO_DOMAIN) {
		return nil
	}

	if err != nil {
		return err
	}
	defer freeDomain(other)

	_, mark, err := readDefinition(other)
	if err != nil {
		return err
	}

	uuid, err := other.GetUUIDString()
	if err != nil {
		return err
	}

	if mark.Gateway != d.gateway {
		return fmt.Errorf("%w: the name %q is taken by domain %s", hypervisor.ErrForeign, name, uuid)
	}

	return fmt.Errorf("%w: the name %q is taken by our own domain %s of VM %q", hypervisor.ErrInvalid, name, uuid, mark.VM)
}

// document is a definition as libvirt wrote it and as it was read.
type document struct {
	text string
	*libvirtxml.Domain
}

func readDefinition(dom *libvirt.Domain) (document, definition.Mark, error) {
	text, err := dom.GetXMLDesc(libvirt.DOMAIN_XML_INACTIVE)
	if err != nil {
		return document{}, definition.Mark{}, err
	}

	doc, err := definition.Parse(text)
	if err != nil {
		return document{}, definition.Mark{}, err
	}

	mark, _ := definition.MarkOf(doc.Metadata)

	return document{text: text, Domain: doc}, mark, nil
}

func define(c *libvirt.Connect, doc *libvirtxml.Domain) error {
	text, err := doc.Marshal()
	if err != nil {
		return fmt.Errorf("error writing the definition: %w", err)
	}

	dom, err := c.DomainDefineXML(text)
	if err != nil {
		return err
	}

	freeDomain(dom)

	return nil
}

// redefine changes what differs in a domain that is ours, or becomes ours by it.
func (d *driver) redefine(c *libvirt.Connect, dom *libvirt.Domain, wanted, asked *hypervisor.DomainSpec) (hypervisor.DefineResult, error) {
	var result hypervisor.DefineResult

	doc, mark, err := readDefinition(dom)
	if err != nil {
		return result, err
	}

	// Another gateway's mark is replaced only where the spec names that gateway.
	if mark.Gateway != d.gateway && !asked.MayTake(mark.Gateway) {
		return result, hypervisor.ErrForeign
	}

	state, _, err := dom.GetState()
	if err != nil {
		return result, err
	}

	on := isOn(state)

	if doc.Name != wanted.Name {
		if err := rename(dom, wanted.Name, on); err != nil {
			return result, err
		}

		doc.Name = wanted.Name
		result.Changed = append(result.Changed, hypervisor.FieldName)
	}

	fields := definition.Differences(doc.Domain, wanted)

	if err := d.apply(c, dom, doc, wanted, fields, on); err != nil {
		return result, err
	}

	result.Changed = append(result.Changed, fields...)

	if mark != d.markOf(wanted) {
		if err := setMark(dom, d.markOf(wanted), on); err != nil {
			return result, err
		}

		result.Changed = append(result.Changed, hypervisor.FieldMark)
	}

	if on {
		err = d.changeLive(dom, wanted, fields, asked.Insist, &result)
	}

	return result, err
}

func rename(dom *libvirt.Domain, name string, on bool) error {
	if on {
		return fmt.Errorf("%w: a domain that is on cannot be renamed", hypervisor.ErrBusy)
	}

	return dom.Rename(name, 0)
}

// apply writes the fields that differ: a description by a call of its own, everything else by a new definition that
// starts from the one that is there, so that addresses, the version of the machine and what others added stay.
func (d *driver) apply(c *libvirt.Connect, dom *libvirt.Domain, doc document, wanted *hypervisor.DomainSpec, fields []string, on bool) error {
	persistent, err := dom.IsPersistent()
	if err != nil {
		return err
	}

	if persistent && len(fields) == 0 {
		return nil
	}

	if persistent && slices.Equal(fields, []string{hypervisor.FieldDescription}) {
		return setDescription(dom, wanted.Description, impact(on))
	}

	lost, err := definition.Lost(doc.text, doc.Domain)
	if err != nil {
		return err
	}

	if len(lost) > 0 {
		return fmt.Errorf("%w: changing %s would lose parts of the definition that this program does not know: %s",
			hypervisor.ErrUnsupported, strings.Join(fields, ", "), strings.Join(lost, ", "))
	}

	definition.Apply(doc.Domain, wanted, d.madeOf())

	if err := define(c, doc.Domain); err != nil {
		return err
	}

	if on && slices.Contains(fields, hypervisor.FieldDescription) {
		return setDescription(dom, wanted.Description, libvirt.DOMAIN_AFFECT_LIVE)
	}

	return nil
}

// impact is what a change of texts is for.
func impact(on bool) libvirt.DomainModificationImpact {
	if on {
		return libvirt.DOMAIN_AFFECT_CONFIG | libvirt.DOMAIN_AFFECT_LIVE
	}

	return libvirt.DOMAIN_AFFECT_CONFIG
}

func setDescription(dom *libvirt.Domain, text string, flags libvirt.DomainModificationImpact) error {
	return dom.SetMetadata(libvirt.DOMAIN_METADATA_DESCRIPTION, text, "", "", flags)
}

func setMark(dom *libvirt.Domain, mark definition.Mark, on bool) error {
	content, err := mark.Content()
	if err != nil {
		return err
	}

	return dom.SetMetadata(libvirt.DOMAIN_METADATA_ELEMENT, content, definition.MarkPrefix, hypervisor.MetadataNamespace, impact(on))
}
