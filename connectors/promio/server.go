// Package promio reads series from Prometheus, or from what has its API, as a Beam source, and
// writes series to it.
package promio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"hafvf/connectors/internal/retry"
	"hafvf/connectors/internal/tlsfiles"
	"hafvf/internal/secret"
	"hafvf/internal/weburl"
)

// A Server is where requests go, and with which login.
type Server struct {
	URL      secret.Text
	TLS      *tlsfiles.TLS // nil: the authorities of the system
	Username string
	Password secret.Secret
	Headers  map[string]secret.Text
	Timeout  time.Duration // of one request
}

// patience is the policy by which requests are repeated, for as long as it takes.
var patience = retry.Policy{First: 500 * time.Millisecond, Last: 30 * time.Second}

// repeats is the time after which the log says again that a server is away.
const repeats = time.Minute

// maxAnswer is the longest answer that is read, in bytes.
const maxAnswer = 32 << 20

var errTooLong = fmt.Errorf("the answer is longer than %d MB", maxAnswer>>20)

// base reads the URL. section is the key of the server in a config.
func (s Server) base(section string) (*url.URL, error) {
	text, err := s.URL.Read(section + ".url")
	if err != nil {
		return nil, err
	}
	u, err := weburl.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s.url: %w", section, err)
	}
	return u, nil
}

// place is what messages may say of a URL.
func place(u *url.URL) string { return u.Scheme + "://" + u.Host }

// transport makes requests of the server. It reads secrets anew for each: they change while a
// run goes on.
type transport struct {
	server  Server
	section string
	to      *http.Transport
}

// newTransport reads the files of s, and its secrets as a trial.
func newTransport(s Server, section string) (*transport, error) {
	t := &transport{server: s, section: section, to: http.DefaultTransport.(*http.Transport).Clone()}
	if s.TLS != nil {
		var err error
		if t.to.TLSClientConfig, err = s.TLS.Config(); err != nil {
			return nil, fmt.Errorf("%s.%w", section, err)
		}
	}
	trial, err := http.NewRequest(http.MethodGet, "http://localhost", nil)
	if err != nil {
		return nil, err
	}
	return t, t.authorize(trial)
}

func (t *transport) authorize(r *http.Request) error {
	for name, v := range t.server.Headers {
		text, err := v.Read(t.section + ".headers." + name)
		if err != nil {
			return err
		}
		r.Header.Set(name, text)
	}
	if t.server.Username == "" {
		return nil
	}
	password, err := t.server.Password.Value(t.section + ".password")
	if err != nil {
		return err
	}
	r.SetBasicAuth(t.server.Username, password)
	return nil
}

// RoundTrip notes the code of the answer for the request's code, and cuts an answer that is too
// long.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	own := r.Clone(r.Context())
	if err := t.authorize(own); err != nil {
		return nil, &secretError{err}
	}
	answer, err := t.to.RoundTrip(own)
	if err != nil {
		return nil, err
	}
	if c, ok := r.Context().Value(codeOf{}).(*atomic.Int32); ok {
		c.Store(int32(answer.StatusCode))
	}
	answer.Body = &shortBody{answer.Body, maxAnswer}
	return answer, nil
}

// A secretError says why a secret cannot be read any more.
type secretError struct{ error }

// codeOf is the key of a request's code in its context.
type codeOf struct{}

// withCode returns a context for a request, and where the code of its answer will be: 0 if there
// is none.
func withCode(ctx context.Context) (context.Context, *atomic.Int32) {
	code := new(atomic.Int32)
	return context.WithValue(ctx, codeOf{}, code), code
}

// shortBody fails where a body is longer than left.
type shortBody struct {
	io.ReadCloser
	left int64
}

func (b *shortBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// client returns a client of the transport. Its redirects would bring secrets to other hosts.
func (t *transport) client() *http.Client {
	return &http.Client{Transport: t, Timeout: t.server.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// withoutURL is an error of net/http without the URL, which may hold a secret.
func withoutURL(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
