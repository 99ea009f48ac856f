// Package httpclient is the HTTP client for all servers that the program calls. It follows no redirects, limits the
// length of responses, and reads secrets again if a server refuses them. It uses the proxies of the environment
// (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
package httpclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"hafvf/internal/message"
	"hafvf/internal/secret"
	"hafvf/internal/tlsfiles"
	"hafvf/internal/weburl"
)

// A Server is the address of a server and the login for it. It contains references to secrets, not the secrets.
type Server struct {
	URL      secret.Text
	TLS      *tlsfiles.TLS          // nil means the system's certificate authorities
	Username string                 // for HTTP basic authentication; empty means none
	Password secret.Secret          // password of the user
	Headers  map[string]secret.Text // headers of each request, by name
	Timeout  time.Duration          // for one request including its response; zero means no limit
}

// Bounds limits the responses of a server.
type Bounds struct {
	// Answer is the maximum length of a 2xx response in bytes; zero means 8 MB. Reading a longer one fails with
	// TooLong. Other responses are cut at one megabyte.
	Answer int64
	// Pause is the maximum of Retry-After in a response; zero removes Retry-After.
	Pause time.Duration
}

const (
	defaultAnswer = 8 << 20
	refusalAnswer = 1 << 20
)

// TooLong is the error for a response that is longer than that number of bytes.
type TooLong int64

func (t TooLong) Error() string {
	if t < 1<<20 {
		return fmt.Sprintf("the answer is longer than %d bytes", int64(t))
	}
	return fmt.Sprintf("the answer is longer than %d MB", int64(t)>>20)
}

// A SecretError means that a server refuses the login and the login cannot be read again. Retrying does not help.
type SecretError struct{ error }

func (e *SecretError) Unwrap() error { return e.error }

// A Client makes requests to a server. It is safe for concurrent use.
type Client struct {
	section   string
	server    Server
	bounds    Bounds
	base      *url.URL // the URL as first read; callers derive their requests from it
	login     atomic.Pointer[login]
	log       *slog.Logger
	transport *http.Transport
}

// A login is the URL and headers as last read. They may be secret.
type login struct {
	url      *url.URL
	headers  http.Header
	replacer *strings.Replacer // replaces secrets in responses
}

// New reads the files and secrets that s names. It does not connect. section is the key of the server in a config,
// for errors. log, if not nil, receives a warning if a secret that was read again cannot be used.
func New(section string, s Server, b Bounds, log *slog.Logger) (*Client, error) {
	if b.Answer == 0 {
		b.Answer = defaultAnswer
	}
	c := &Client{section: section, server: s, bounds: b, log: cmp.Or(log, slog.New(slog.DiscardHandler)), transport: http.DefaultTransport.(*http.Transport).Clone()}
	secure, err := s.TLS.Config()
	if err != nil {
		return nil, fmt.Errorf("%s.%w", section, err)
	}
	c.transport.TLSClientConfig, c.transport.MaxResponseHeaderBytes = secure, 1<<20
	first, err := c.read()
	if err != nil {
		return nil, err
	}
	c.base = first.url
	c.login.Store(first)
	return c, nil
}

// Base returns the URL of the server as first read.
func (c *Client) Base() *url.URL {
	base := *c.base
	return &base
}

// Place returns the part of the server's URL that messages may show.
func (c *Client) Place() string { return place(c.login.Load().url) }

// place omits login, path and query, which may be secret.
func place(u *url.URL) string { return u.Scheme + "://" + u.Host }

// HTTP returns a client that makes its requests with c.
func (c *Client) HTTP() *http.Client { return &http.Client{Transport: c, Timeout: c.server.Timeout} }

// An AttemptError is the error of a Post without a response, or with one other than 2xx.
type AttemptError struct {
	Err          error         // why there is no response; after a response, set by the caller
	Code         int           // status code of the response; 0 without one
	Status, Text string        // of the response; at most maxText bytes of its body
	Again        bool          // another attempt may succeed
	retryAfter   time.Duration // pause that the server asks for
}

func (e *AttemptError) Error() string             { return e.Err.Error() }
func (e *AttemptError) Unwrap() error             { return e.Err }
func (e *AttemptError) RetryAfter() time.Duration { return e.retryAfter }

// maxText is the maximum number of bytes that Post reads of a response.
const maxText = 4 << 10

// Post sends body once. The error is an *AttemptError, unless the request cannot be made or it is a *SecretError.
// If the server responded, the caller sets AttemptError.Err.
func (c *Client) Post(ctx context.Context, endpoint string, header http.Header, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return Bare(err)
	}
	r.Header = header
	answer, err := c.HTTP().Do(r)
	switch err = Bare(err); {
	case errors.As(err, new(*SecretError)):
		return err
	case err != nil:
		return &AttemptError{Err: err, Again: true}
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxText))
	code := answer.StatusCode
	if code/100 == 2 {
		return nil
	}
	retryAfter := parseRetryAfter(answer.Header.Get("Retry-After"))
	return &AttemptError{Code: code, Status: answer.Status, Text: string(text), Again: Temporary(code), retryAfter: retryAfter}
}

// CloseIdleConnections closes connections that are not in use.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// read reads the URL and the secrets.
func (c *Client) read() (*login, error) {
	text, err := c.server.URL.Read(c.section + ".url")
	if err != nil {
		return nil, err
	}
	l := &login{headers: http.Header{}}
	if l.url, err = weburl.Parse(text); err != nil {
		return nil, &unusable{fmt.Errorf("%s: %w", c.server.URL.Path(c.section+".url"), err)}
	}
	var secrets []string
	if c.server.URL.Secret != (secret.Secret{}) {
		secrets = append(secrets, text, l.url.RequestURI())
	}
	for _, values := range l.url.Query() { // a value may be a token
		for _, value := range values {
			secrets = append(secrets, value, url.QueryEscape(value))
		}
	}
	basic := &http.Request{Header: l.headers}
	if user := l.url.User; user != nil {
		password, _ := user.Password()
		basic.SetBasicAuth(user.Username(), password)
		secrets = append(secrets, password)
	}
	for name, v := range c.server.Headers {
		path := c.section + ".headers." + name
		text, err := v.Read(path)
		if err != nil {
			return nil, err
		}
		if err := CheckHeader(name, text); err != nil {
			return nil, &unusable{fmt.Errorf("%s: %w", v.Path(path), err)}
		}
		l.headers.Set(name, text)
		if v.Secret != (secret.Secret{}) {
			secrets = append(secrets, text)
		}
	}
	if c.server.Username != "" {
		password, err := c.server.Password.Value(c.section + ".password")
		if err != nil {
			return nil, err
		}
		basic.SetBasicAuth(c.server.Username, password)
		secrets = append(secrets, password)
	}
	l.replacer = hide(secrets, l.headers.Get("Authorization"))
	return l, nil
}

// unusable is the error for a secret that was read and cannot be used in a request.
type unusable struct{ error }

func (e *unusable) Unwrap() error { return e.error }

// CheckHeader returns an error if a request cannot have the header. The error does not show the text, which may be
// secret.
func CheckHeader(name, text string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%s is not a valid header name: use letters, digits and -", message.Quote(name))
	case !httpguts.ValidHeaderFieldValue(text):
		i := strings.IndexFunc(text, func(r rune) bool { return !httpguts.ValidHeaderFieldValue(string(r)) })
		return fmt.Errorf("the text cannot be sent as a header: character %d of it is a line end or another control character", i+1)
	}
	return nil
}

// minHidden is the minimum length in bytes of a secret that is hidden. A shorter one may be part of any word.
const minHidden = 8

// hide returns a replacer for secrets, for credentials of authorization, and for authorization as a whole.
func hide(secrets []string, authorization string) *strings.Replacer {
	_, credentials, _ := strings.Cut(authorization, " ")
	secrets = slices.DeleteFunc(append(secrets, credentials), func(s string) bool { return len(s) < minHidden })
	if authorization != "" {
		secrets = append(secrets, authorization)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // strings.Replacer takes the first match
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, "[hidden]")
	}
	return strings.NewReplacer(pairs...)
}

// Hidden replaces the secrets of requests in a text of the server, which may repeat them.
func (c *Client) Hidden(text string) string { return c.login.Load().replacer.Replace(text) }

// RoundTrip makes a request with the login. After 401 or 403 it reads the login again and, if it has changed, tries
// once more. A redirect loses its Location; its body names the target.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	old := c.login.Load()
	answer, err := c.transport.RoundTrip(c.withLogin(old, r))
	if err != nil {
		return nil, err
	}
	if code := answer.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden {
		fresh, err := c.read()
		if errors.As(err, new(*unusable)) {
			c.log.Warn("reloaded secret cannot be used: keeping the previous one", "reason", err.Error())
			fresh, err = old, nil
		}
		if err != nil {
			answer.Body.Close()
			return nil, &SecretError{fmt.Errorf("%s answers %s, and the login cannot be read again: %w", c.Place(), answer.Status, err)}
		}
		if second, err := repeated(r); err == nil && !(reflect.DeepEqual(old.url, fresh.url) && reflect.DeepEqual(old.headers, fresh.headers)) {
			c.login.Store(fresh)
			answer.Body.Close()
			if answer, err = c.transport.RoundTrip(c.withLogin(fresh, second)); err != nil {
				return nil, err
			}
		}
	}
	c.bound(answer)
	return answer, nil
}

// withLogin returns a copy of r with the URL and headers of l.
func (c *Client) withLogin(l *login, r *http.Request) *http.Request {
	copied := r.Clone(r.Context())
	maps.Copy(copied.Header, l.headers)
	if l.url == c.base {
		return copied
	}
	base, current, target := c.base.String(), l.url.String(), r.URL.String()
	if target == base {
		target = current
	} else if below, ok := strings.CutPrefix(target, strings.TrimSuffix(base, "/")); ok {
		target = strings.TrimSuffix(current, "/") + below
	}
	if u, err := url.Parse(target); err == nil {
		copied.URL, copied.Host = u, u.Host
	}
	return copied
}

// repeated returns a copy of r whose body can be read again.
func repeated(r *http.Request) (copied *http.Request, err error) {
	copied = r.Clone(r.Context())
	switch {
	case r.Body == nil:
	case r.GetBody == nil:
		return nil, errors.New("the body cannot be read again")
	default:
		copied.Body, err = r.GetBody()
	}
	return copied, err
}

// bound limits Retry-After and the body of a response, and hides secrets in refusals.
func (c *Client) bound(answer *http.Response) {
	answer.Status = c.Hidden(answer.Status)
	if text := answer.Header.Get("Retry-After"); text != "" {
		answer.Header.Del("Retry-After")
		if wait := min(parseRetryAfter(text), c.bounds.Pause); wait >= time.Second {
			answer.Header.Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
		}
	}
	if target, err := answer.Location(); err == nil && answer.StatusCode/100 == 3 {
		answer.Header.Del("Location")
		answer.Body.Close()
		text := fmt.Appendf(nil, "redirect to %s was not followed", message.Printable(place(target)))
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		return
	}
	if answer.StatusCode/100 == 2 {
		answer.Body = &boundedBody{ReadCloser: answer.Body, bound: c.bounds.Answer, remaining: c.bounds.Answer}
		return
	}
	answer.Body, answer.ContentLength = &refusalBody{ReadCloser: answer.Body, hide: c.Hidden}, -1
}

// A refusalBody is the body of a refusal without secrets.
type refusalBody struct {
	io.ReadCloser
	hide func(string) string
	text *strings.Reader
	err  error
}

func (b *refusalBody) Read(p []byte) (int, error) {
	if b.text == nil {
		var text []byte
		text, b.err = io.ReadAll(io.LimitReader(b.ReadCloser, refusalAnswer))
		b.text = strings.NewReader(b.hide(string(text)))
	}
	n, err := b.text.Read(p)
	if err == io.EOF {
		err = cmp.Or(b.err, io.EOF)
	}
	return n, err
}

// parseRetryAfter returns the pause of a Retry-After in seconds or as a time; 0 if it is invalid.
func parseRetryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return 1<<63 - 1
	}
	end, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return time.Until(end)
}

// Temporary reports whether the same request may succeed later, after a response with that code: 408, 425, 429, or
// 500 and above.
func Temporary(code int) bool {
	return code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500
}

// A boundedBody fails if the body is longer than bound.
type boundedBody struct {
	io.ReadCloser
	bound, remaining int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.remaining > 0 {
		n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.remaining)])
		b.remaining -= int64(n)
		return n, err
	}
	var more [1]byte
	n, err := b.ReadCloser.Read(more[:])
	if n > 0 {
		return 0, TooLong(b.bound)
	}
	return 0, err
}

// Bare returns the error of a request without its URL, which may contain a secret.
func Bare(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
