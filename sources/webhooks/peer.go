package webhooks

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// peerOf returns the address of the sender: the connection's, or, where that is a trusted proxy, the last one in
// X-Forwarded-For that is not a trusted proxy itself. What an untrusted peer writes there is ignored.
func peerOf(r *http.Request, proxies []netip.Prefix) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}

	peer, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}

	peer = peer.Unmap().WithZone("")
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")

	for _, hop := range slices.Backward(hops) {
		if !contains(proxies, peer) {
			break
		}

		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}

		peer = next.Unmap().WithZone("")
	}

	return peer
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
