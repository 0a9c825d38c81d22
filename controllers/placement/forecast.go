package placement

import (
	"context"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/resources"
)

// Forecast is what a drain of a host would do with one VM.
type Forecast struct {
	VM string
	// To is the host that it would go to; empty: it stays, as Obstacle says.
	To       string
	Obstacle string
}

// Drain says what a drain of a host would do with its VMs, sorted by name, and changes nothing. It decides as the controller
// does, one VM after the other, each with the room that those before it leave.
func Drain(ctx context.Context, r controller.UncachedReader, host string) ([]Forecast, error) {
	var l ledger
	if err := l.load(ctx, r); err != nil {
		return nil, err
	}

	names := resources.SortedKeys(l.of(host).vms)
	forecasts := make([]Forecast, 0, len(names))

	for _, vm := range names {
		e := l.vms[vm]
		f := Forecast{VM: vm}

		switch obstacle, _ := l.fixed(&e.request, host); {
		case e.rules.Host == host:
			f.Obstacle = "it is pinned to the host"
		case obstacle != "":
			f.Obstacle = obstacle
		default:
			c := l.choose(&e.request, host)
			if f.To = c.host; c.host == "" {
				f.Obstacle = c.text(&e.request)
			}
		}

		if f.To != "" {
			l.set(entry{request: e.request, host: f.To, reserved: e.need})
		}

		forecasts = append(forecasts, f)
	}

	return forecasts, nil
}
