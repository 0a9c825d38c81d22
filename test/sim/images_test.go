package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

// imageName is the one image of the installation.
const imageName = "golden"

// imageContent is what a version of the image is: a raw disk.
func imageContent(version int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "version %d of the image\n", version), 300)
}

func imageURL(version int) string { return fmt.Sprintf("https://images.example/golden-%d", version) }

func imageDigest(version int) string { return fmt.Sprintf("%x", sha256.Sum256(imageContent(version))) }

// fromImage reports whether the disks of a VM start from the image. It is fixed for each name, as it can't be changed.
func fromImage(name string) bool {
	return hasDisks(name) && strings.ContainsAny(name[len(name)-1:], "45")
}

// depot is the server of images: slow, and as the dice say broken.
type depot struct{ world *world }

// Open implements image.Source.
func (d depot) Open(ctx context.Context, url string) (io.ReadCloser, int64, error) {
	w := d.world

	w.mu.Lock()
	failing := w.dice.Float64() < w.broken404
	pause := time.Duration(w.dice.Int64N(int64(3 * time.Second)))
	cut := w.dice.Float64() < w.broken404
	w.mu.Unlock()

	var version int
	if _, err := fmt.Sscanf(url, "https://images.example/golden-%d", &version); err != nil {
		return nil, 0, err
	}

	if failing {
		return nil, 0, errors.New("the server answers 404 Not Found")
	}

	content := imageContent(version)
	if cut {
		content = content[:len(content)/2]
	}

	return &trickle{ctx: ctx, from: bytes.NewReader(content), pause: pause}, int64(len(content)), nil
}

// trickle is content of which each piece takes a while.
type trickle struct {
	ctx   context.Context //nolint:containedctx // as a body has that of its request
	from  io.Reader
	pause time.Duration
}

func (s *trickle) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.pause):
		return s.from.Read(p[:min(len(p), 2000)])
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func (s *trickle) Close() error { return nil }

// depotBreaks lets some of what is asked for be missing, or cut off.
func (w *world) depotBreaks() {
	rate := float64(w.rand.IntN(3)) * 0.4
	w.trace.add("%.1f of the images are missing or cut off", rate)
	w.setDepot(rate)
}

func (w *world) setDepot(rate float64) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.broken404 = rate
}

// newImage publishes another version of the image.
func (w *world) newImage() {
	w.model.image++
	w.trace.add("version %d of the image", w.model.image)
	w.write("infra.yaml", encode(infrastructure(w.model.drained, w.model.spare, w.model.image)))
}

// loseImage takes the files of images away behind the gateway's back, where no disk starts from them.
func (w *world) loseImage() {
	h := w.anyHost()

	for name := range h.Images() {
		if !usesImage(h.Backings(), name) {
			w.trace.add("lose %s on %s: %v", name, h.Name(), h.DropImage(name))
		}
	}
}

func usesImage(backings map[string]string, name string) bool {
	for _, path := range backings {
		if strings.HasSuffix(path, "/"+name) {
			return true
		}
	}

	return false
}

// imagesOn checks that a host has the image as it is declared, as a whole, and besides only what disks start from.
func (c *check) imagesOn(host string) {
	files, backings := c.sim.Host(host).Images(), c.sim.Host(host).Backings()
	wanted := hypervisor.ImageName(imageName, imageDigest(c.model.image), hypervisor.FormatRaw)

	for name, complete := range files {
		if !complete {
			c.wrong("%s on %s is not complete", name, host)
		}

		if name != wanted && !usesImage(backings, name) {
			c.wrong("%s is left on %s", name, host)
		}
	}

	for volume, path := range backings {
		if _, there := files[path[strings.LastIndex(path, "/")+1:]]; !there {
			c.wrong("volume %s on %s has lost its image %s", volume, host, path)
		}
	}

	status := list[*resources.ImageStatus](c.world, "ImageStatus")[imageName]
	if status == nil {
		c.wrong("the image has no status")

		return
	}

	for _, e := range status.TypedSpec().Hosts {
		if e.Host == host && (!e.Ready || !strings.HasSuffix(e.Path, "/"+wanted) || !files[wanted]) {
			c.wrong("the image on %s: %+v, files %v", host, e, files)
		}
	}
}
