package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// httpGet returns the status and the body of a path.
func (g *gateway) httpGet(path string) (int, string) {
	g.t.Helper()

	response, err := http.Get("http://" + g.http + path)
	require.NoError(g.t, err)

	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	require.NoError(g.t, err)

	return response.StatusCode, string(body)
}

// metric returns the sum of the series of a metric that have all of these labels, each as name="value".
func (g *gateway) metric(name string, labels ...string) float64 {
	g.t.Helper()

	code, text := g.httpGet("/metrics")
	require.Equal(g.t, 200, code)

	sum := 0.0

	for line := range strings.Lines(text) {
		series, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found || series != name && !strings.HasPrefix(series, name+"{") || !containsAll(series, labels) {
			continue
		}

		v, err := strconv.ParseFloat(value, 64)
		require.NoError(g.t, err)

		sum += v
	}

	return sum
}

func containsAll(series string, labels []string) bool {
	for _, l := range labels {
		if !strings.Contains(series, l) {
			return false
		}
	}

	return true
}

// modifyingCalls are the steps of the hypervisor port that change something. EnsureNetwork is not among them: it looks first,
// at every pass; what it changes is seen in the network itself.
var modifyingCalls = []string{
	"DefineDomain", "StartDomain", "RequestShutdown", "ForceOff", "Pause", "Resume", "UndefineDomain",
	"RemoveNetwork", "EnsureVolume", "RemoveVolume",
}

// modified counts the calls so far that may have changed a hypervisor.
func (g *gateway) modified() map[string]float64 {
	g.t.Helper()

	counts := map[string]float64{}

	for _, call := range modifyingCalls {
		if n := g.metric("gateway_hypervisor_call_seconds_count", fmt.Sprintf("call=%q", call)); n > 0 {
			counts[call] = n
		}
	}

	return counts
}

// residentMemory returns the resident memory of a process in bytes, as the kernel counts it.
func residentMemory(status io.Reader) (int64, error) {
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)

			return kib << 10, err
		}
	}

	return 0, fmt.Errorf("the kernel does not say")
}
