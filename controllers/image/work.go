package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// errSource says that an image could not be had from where it is declared to be.
var errSource = errors.New("the image can't be had")

// isPath reports whether an image is a file on the hosts, rather than one that is fetched.
func isPath(spec *resources.ImageSpec) bool { return strings.HasPrefix(spec.Source, "/") }

// work does a job.
func (c *Controller) work(ctx context.Context, j *job) outcome {
	driver, err := c.options.Pool.Driver(j.host)
	if err != nil {
		return outcome{err: err}
	}

	switch {
	case j.removal:
		kept, err := c.remove(ctx, driver, j)

		return outcome{kept: kept, err: err}
	case isPath(&j.spec):
		file, err := c.use(ctx, driver, j)

		return outcome{file: file, err: err}
	}

	found, err := c.survey(ctx, driver, j)
	if err == nil && found == nil {
		found, err = c.fetch(ctx, driver, j)
	}

	if err != nil {
		return outcome{err: err}
	}

	_, _, format, _ := hypervisor.ParseImageName(found.Name)

	return outcome{file: resources.ImageOnHost{
		Path: found.Path, Bytes: found.Bytes, Total: found.Bytes, VirtualSize: max(found.VirtualSize, found.Bytes*rawOnly(format)),
		Format: format, SHA256: j.spec.SHA256,
	}}
}

// rawOnly is 1 for the format whose disk is as large as its file.
func rawOnly(format string) resources.Size {
	if format == hypervisor.FormatRaw {
		return 1
	}

	return 0
}

// survey looks for the image's file on the host, and removes what nobody needs: files of other contents of the image, of images
// that are not declared any more, and incomplete ones. What disks start from stays.
func (c *Controller) survey(ctx context.Context, driver hypervisor.Driver, j *job) (*hypervisor.ImageFile, error) {
	leave, err := c.jobs.look(ctx, j.host)
	if err != nil {
		return nil, err
	}
	defer leave()

	files, err := images(ctx, driver, j)
	if err != nil {
		return nil, err
	}

	var found *hypervisor.ImageFile

	for i := range files {
		file := &files[i]
		image, digest, _, ok := hypervisor.ParseImageName(file.Name)

		switch {
		case !ok:
			continue
		case image == j.image && !isPath(&j.spec) && strings.HasPrefix(j.spec.SHA256, digest) && file.Complete:
			found = file

			continue
		case image != j.image && c.jobs.knows(image):
			continue
		}

		if err := c.removeFile(ctx, driver, j, file.Name); err != nil && !errors.Is(err, hypervisor.ErrInUse) {
			return nil, err
		}
	}

	return found, nil
}

// images lists the host's files of images. A host that can't have any has none.
func images(ctx context.Context, driver hypervisor.Driver, j *job) ([]hypervisor.ImageFile, error) {
	files, err := driver.Images(ctx)
	if err != nil && !errors.Is(err, hypervisor.ErrUnsupported) {
		return nil, fmt.Errorf("error looking for image %q: %w", j.image, err)
	}

	return files, nil
}

// remove removes all files of an image from the host, but those that disks start from, which it names.
func (c *Controller) remove(ctx context.Context, driver hypervisor.Driver, j *job) (kept []string, err error) {
	leave, err := c.jobs.look(ctx, j.host)
	if err != nil {
		return nil, err
	}
	defer leave()

	files, err := images(ctx, driver, j)
	if err != nil {
		return nil, err
	}

	for i := range files {
		if image, _, _, ok := hypervisor.ParseImageName(files[i].Name); !ok || image != j.image {
			continue
		}

		err := c.removeFile(ctx, driver, j, files[i].Name)

		switch {
		case errors.Is(err, hypervisor.ErrInUse):
			kept = append(kept, files[i].Name)
		case err != nil:
			return nil, err
		}
	}

	return kept, nil
}

func (c *Controller) removeFile(ctx context.Context, driver hypervisor.Driver, j *job, name string) error {
	if err := c.options.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	if err := driver.RemoveImage(ctx, name); err != nil {
		return fmt.Errorf("error removing %s: %w", name, err)
	}

	return c.note(j, "remove image file "+name)
}

// note tells the journal what was changed on a host.
func (c *Controller) note(j *job, what string) error {
	err := c.options.Journal.Append(store.Entry{
		Class: store.ClassHypervisor, Source: resources.ControllerImage, Name: j.host, Object: "Image/" + j.image, Message: what,
	})
	if err != nil {
		return fmt.Errorf("error noting %q of image %q: %w", what, j.image, err)
	}

	return nil
}

// fetch streams the image from its URL to the host.
func (c *Controller) fetch(ctx context.Context, driver hypervisor.Driver, j *job) (*hypervisor.ImageFile, error) {
	j.fetched.Store(-1)

	leave, err := c.jobs.turn(ctx, j.host)
	if err != nil {
		return nil, err
	}
	defer leave()

	j.fetched.Store(0)
	c.metrics.running.Inc()
	defer c.metrics.running.Dec()

	file, err := c.stream(ctx, driver, j)
	c.metrics.bytes.Add(float64(j.fetched.Load()))
	c.metrics.fetches.WithLabelValues(result(err)).Inc()

	if err != nil {
		return nil, err
	}

	return &file, c.note(j, "store image file "+file.Name)
}

func (c *Controller) stream(ctx context.Context, driver hypervisor.Driver, j *job) (none hypervisor.ImageFile, err error) {
	from, size, err := c.options.Source.Open(ctx, j.spec.Source)
	if err != nil {
		return none, fmt.Errorf("%w: %w", errSource, err)
	}

	defer func() {
		// Nobody needs what is left of the answer.
		_ = from.Close()
	}()

	first := make([]byte, headerBytes)

	n, err := io.ReadFull(from, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return none, fmt.Errorf("%w: %w", errSource, err)
	}

	head, err := inspect(first[:n])
	if err == nil && head.backed {
		err = fmt.Errorf("%w: its data is in another file, which it would take from the host", errInvalid)
	}

	if err != nil {
		return none, err
	}

	j.total.Store(size)
	j.virtual.Store(max(int64(head.virtual), size*int64(rawOnly(head.format))))

	checked := newContent(io.MultiReader(bytes.NewReader(first[:n]), from), j.spec.SHA256, &j.fetched)
	spec := hypervisor.ImageSpec{
		Name: hypervisor.ImageName(j.image, j.spec.SHA256, head.format), Size: resources.Size(size), VirtualSize: head.virtual,
	}

	if err := c.options.Barrier.Barrier(ctx); err != nil {
		return none, fmt.Errorf("error waiting for the store: %w", err)
	}

	file, err := driver.StoreImage(ctx, spec, checked)
	if failure := checked.failure(); err != nil && failure != nil {
		err = failure
		if !errors.Is(failure, errInvalid) {
			err = fmt.Errorf("%w: %w", errSource, failure)
		}
	}

	return file, err
}

// use checks an image that is a file of the host.
func (c *Controller) use(ctx context.Context, driver hypervisor.Driver, j *job) (none resources.ImageOnHost, err error) {
	// It may have been fetched before it was a path.
	if _, err := c.survey(ctx, driver, j); err != nil {
		return none, err
	}

	file := resources.ImageOnHost{Path: j.spec.Source, Format: formatByName(j.spec.Source), SHA256: j.spec.SHA256}

	if j.spec.SHA256 == "" {
		// Without a checksum the format is what its name says: a guest could have written another header into it.
		seen, err := driver.ReadFile(ctx, j.spec.Source, nil)
		if err != nil {
			return none, c.unreadable(j, err)
		}

		file.Bytes, file.Total, file.VirtualSize = seen.Bytes, seen.Bytes, seen.VirtualSize
		if file.Format == hypervisor.FormatRaw {
			file.VirtualSize = seen.Bytes
		}

		return file, nil
	}

	// What was read once is not read again while it is as long as it was.
	if j.was.Ready {
		seen, err := driver.ReadFile(ctx, j.spec.Source, nil)
		if err != nil {
			return none, c.unreadable(j, err)
		}

		if seen.Bytes == j.was.Bytes {
			return j.was, nil
		}
	}

	return c.check(ctx, driver, j, file)
}

// check reads a file of the host to its end and compares its checksum.
func (c *Controller) check(ctx context.Context, driver hypervisor.Driver, j *job, file resources.ImageOnHost) (none resources.ImageOnHost, err error) {
	leave, err := c.jobs.turn(ctx, j.host)
	if err != nil {
		return none, err
	}
	defer leave()

	var head start

	checked := newContent(nil, j.spec.SHA256, &j.fetched)

	seen, err := driver.ReadFile(ctx, j.spec.Source, io.MultiWriter(&head, checked))
	if err != nil {
		return none, c.unreadable(j, err)
	}

	if err := checked.check(); err != nil {
		return none, err
	}

	found, err := inspect(head.bytes)
	if err != nil {
		return none, err
	}

	file.Bytes, file.Total, file.Format, file.VirtualSize = seen.Bytes, seen.Bytes, found.format, max(found.virtual, seen.Bytes*rawOnly(found.format))

	return file, nil
}

func (c *Controller) unreadable(j *job, err error) error {
	if errors.Is(err, hypervisor.ErrNotFound) {
		return fmt.Errorf("%w: host %s has no file %s", errSource, j.host, j.spec.Source)
	}

	return err
}

// formatByName is the format that the name of a file says.
func formatByName(file string) string {
	if strings.EqualFold(path.Ext(file), "."+hypervisor.FormatQCOW2) {
		return hypervisor.FormatQCOW2
	}

	return hypervisor.FormatRaw
}
