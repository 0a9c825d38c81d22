package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"gateway/config"
)

const (
	// connectTimeout bounds each of dialing and the TLS handshake, answerTimeout the time until the server answers.
	connectTimeout = 10 * time.Second
	answerTimeout  = 30 * time.Second
	// stallTimeout is how long a server may send nothing in the middle of an image.
	stallTimeout = 30 * time.Second
	// maxRedirects is what browsers and curl's users are content with.
	maxRedirects = 10
)

// httpSource fetches over HTTP what the policy allows.
type httpSource struct {
	policy config.Policy
	client *http.Client
}

// NewHTTPSource returns the source of the URLs that the policy allows. It is asked for each redirect again, and every address
// that is dialed is held against it, so that a name can't lead to what is reachable from the gateway only. Proxies of the
// environment are not used: the address behind one can't be seen.
func NewHTTPSource(policy config.Policy) Source {
	s := &httpSource{policy: policy}
	dialer := &net.Dialer{Timeout: connectTimeout, ControlContext: checkAddress}

	s.client = &http.Client{
		Transport: &marked{policy: policy, next: &http.Transport{
			DialContext:           dialer.DialContext,
			TLSHandshakeTimeout:   connectTimeout,
			ResponseHeaderTimeout: answerTimeout,
			DisableCompression:    true,
			// A connection that was made for a listed URL must not carry a request for another.
			DisableKeepAlives: true,
		}},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}

			return s.policy.AllowedURL(request.URL)
		},
	}

	return s
}

// marked tells the dialer whether a request may reach addresses that are not public.
type marked struct {
	policy config.Policy
	next   http.RoundTripper
}

type anyAddress struct{}

// RoundTrip implements http.RoundTripper: it is called for each redirect anew.
func (m *marked) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := context.WithValue(request.Context(), anyAddress{}, m.policy.Listed(request.URL))

	return m.next.RoundTrip(request.WithContext(ctx))
}

// checkAddress refuses to dial what the policy does not allow. It sees the address that a name was resolved to.
func checkAddress(ctx context.Context, _, address string, _ syscall.RawConn) error {
	if listed, _ := ctx.Value(anyAddress{}).(bool); listed {
		return nil
	}

	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", address, err)
	}

	return config.AllowedAddress(to.Addr())
}

// Open implements Source. Errors don't show what may be secret in the URL.
func (s *httpSource) Open(ctx context.Context, text string) (io.ReadCloser, int64, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, 0, errors.New("error fetching it: its source is no URL")
	}

	if err := s.policy.AllowedURL(u); err != nil {
		return nil, 0, fmt.Errorf("error fetching it: %w", err)
	}

	ctx, cancel := context.WithCancelCause(ctx)

	response, err := s.request(ctx, u)
	if err != nil {
		cancel(nil)

		return nil, 0, fmt.Errorf("error fetching %s://%s%s: %w", u.Scheme, u.Host, u.EscapedPath(), err)
	}

	return newBody(response.Body, cancel), max(0, response.ContentLength), nil
}

func (s *httpSource) request(ctx context.Context, u *url.URL) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("it is no URL that can be asked for")
	}

	request.Header.Set("User-Agent", "gateway")

	response, err := s.client.Do(request)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL, which may have a token in its query
	}

	if err != nil {
		return nil, err
	}

	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the server answers %s", response.Status), response.Body.Close())
	}

	return response, nil
}

// body is the content of an answer, which ends when the server stalls.
type body struct {
	io.ReadCloser

	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu      sync.Mutex // guards stalled
	stalled bool
}

func newBody(from io.ReadCloser, cancel context.CancelCauseFunc) *body {
	b := &body{ReadCloser: from, cancel: cancel}
	b.timer = time.AfterFunc(stallTimeout, func() {
		b.mu.Lock()
		b.stalled = true
		b.mu.Unlock()

		cancel(context.DeadlineExceeded)
	})
	b.timer.Stop()

	return b
}

// Read implements io.Reader. The time that is counted is that of the server, not of whoever takes the content.
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(stallTimeout)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()

	b.mu.Lock()
	defer b.mu.Unlock()

	if err != nil && b.stalled {
		err = fmt.Errorf("the server has sent nothing for %s", stallTimeout)
	}

	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)

	return b.ReadCloser.Close()
}
