// Package httpclient is the client of HTTP for all servers that the program asks. It follows no
// redirect, reads no answer without a bound, and reads secrets anew where a server does not know
// them any more. It takes proxies from the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
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

// A Server is where requests go, and with which login. It holds no secrets, only their places.
type Server struct {
	URL      secret.Text
	TLS      *tlsfiles.TLS          // nil: the authorities of the system
	Username string                 // of HTTP basic authentication; empty for none
	Password secret.Secret          // of the user
	Headers  map[string]secret.Text // of each request, by name
	Timeout  time.Duration          // of one request with its answer; zero is none
}

// Bounds are what a server may ask of a Client.
type Bounds struct {
	// Answer is the longest answer, in bytes; zero is 8 MB. Reading a longer one fails with
	// TooLong. Of an answer other than 2xx only the first megabyte is read.
	Answer int64
	// Pause is the longest that Retry-After of an answer may be; zero takes none.
	Pause time.Duration
}

const (
	defaultAnswer = 8 << 20
	refusalAnswer = 1 << 20
)

// TooLong is the error of an answer that is longer than so many bytes.
type TooLong int64

func (t TooLong) Error() string {
	if t < 1<<20 {
		return fmt.Sprintf("the answer is longer than %d bytes", int64(t))
	}
	return fmt.Sprintf("the answer is longer than %d MB", int64(t)>>20)
}

// A SecretError says that a server refuses the login, and why that cannot be read anew. No other
// attempt helps.
type SecretError struct{ error }

func (e *SecretError) Unwrap() error { return e.error }

// A Client makes requests of a server. It is safe for concurrent use.
type Client struct {
	section string
	server  Server
	bounds  Bounds
	base    *url.URL // as it was read first: callers make their requests of it
	login   atomic.Pointer[login]
	log     *slog.Logger
	to      *http.Transport
}

// A login is what was read last of what may be secret.
type login struct {
	url     *url.URL
	headers http.Header
	hidden  *strings.Replacer // of what answers must not show
}

// New reads the files and the secrets that s names. It does not connect. section is the key of the
// server in a config, for errors. log, if not nil, has a warning if a secret that was read again cannot be
// used.
func New(section string, s Server, b Bounds, log *slog.Logger) (*Client, error) {
	if b.Answer == 0 {
		b.Answer = defaultAnswer
	}
	c := &Client{section: section, server: s, bounds: b, log: cmp.Or(log, slog.New(slog.DiscardHandler)), to: http.DefaultTransport.(*http.Transport).Clone()}
	secure, err := s.TLS.Config()
	if err != nil {
		return nil, fmt.Errorf("%s.%w", section, err)
	}
	c.to.TLSClientConfig, c.to.MaxResponseHeaderBytes = secure, 1<<20
	first, err := c.read()
	if err != nil {
		return nil, err
	}
	c.base = first.url
	c.login.Store(first)
	return c, nil
}

// Base returns the URL of the server.
func (c *Client) Base() *url.URL {
	base := *c.base
	return &base
}

// Place is what messages may say of the URL of the server.
func (c *Client) Place() string { return place(c.login.Load().url) }

// place leaves out login, path and query, which may be secret.
func place(u *url.URL) string { return u.Scheme + "://" + u.Host }

// HTTP returns a client whose requests are c's.
func (c *Client) HTTP() *http.Client { return &http.Client{Transport: c, Timeout: c.server.Timeout} }

// An AttemptError is the error of a Post that has no answer, or one other than 2xx.
type AttemptError struct {
	Err          error         // why there is no answer, or what the caller says of it
	Code         int           // of the answer; 0 if there is none
	Status, Text string        // of the answer, at most maxText bytes of it
	Again        bool          // another attempt may help
	wait         time.Duration // for which the server asks
}

func (e *AttemptError) Error() string             { return e.Err.Error() }
func (e *AttemptError) Unwrap() error             { return e.Err }
func (e *AttemptError) RetryAfter() time.Duration { return e.wait }

// maxText is how much Post reads of an answer.
const maxText = 4 << 10

// Post sends a body once. The error is an *AttemptError, unless no request can be made or it is a *SecretError.
// Where the server has answered, the caller sets its Err.
func (c *Client) Post(ctx context.Context, to string, header http.Header, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
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
	wait := asked(answer.Header.Get("Retry-After"))
	return &AttemptError{Code: code, Status: answer.Status, Text: string(text), Again: Temporary(code), wait: wait}
}

// CloseIdleConnections closes connections that are not in use.
func (c *Client) CloseIdleConnections() { c.to.CloseIdleConnections() }

// read reads URL and secrets.
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
	for _, values := range l.url.Query() { // a token may be among them
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
		at := c.section + ".headers." + name
		text, err := v.Read(at)
		if err != nil {
			return nil, err
		}
		if err := CheckHeader(name, text); err != nil {
			return nil, &unusable{fmt.Errorf("%s: %w", v.Path(at), err)}
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
	l.hidden = hide(secrets, l.headers.Get("Authorization"))
	return l, nil
}

// unusable is the error of what was read and is none of a request.
type unusable struct{ error }

func (e *unusable) Unwrap() error { return e.error }

// CheckHeader returns an error if no request can have the header. It does not show the text, which may
// be secret.
func CheckHeader(name, text string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%s is no name of a header: it has letters, digits and -, and no blanks", message.Quote(name))
	case !httpguts.ValidHeaderFieldValue(text):
		i := strings.IndexFunc(text, func(r rune) bool { return !httpguts.ValidHeaderFieldValue(string(r)) })
		return fmt.Errorf("the text cannot be sent as a header: character %d of it is a line end or another control character", i+1)
	}
	return nil
}

// leastHidden is how many characters a secret has that answers must not show. A shorter one may be a
// part of any word.
const leastHidden = 8

// hide replaces secrets, and the whole of an Authorization.
func hide(secrets []string, authorization string) *strings.Replacer {
	_, credentials, _ := strings.Cut(authorization, " ")
	secrets = slices.DeleteFunc(append(secrets, credentials), func(s string) bool { return len(s) < leastHidden })
	if authorization != "" {
		secrets = append(secrets, authorization)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // of two at one place the first replaces
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, "[hidden]")
	}
	return strings.NewReplacer(pairs...)
}

// Hidden is a text of the server without the secrets of the requests, which it may repeat.
func (c *Client) Hidden(text string) string { return c.login.Load().hidden.Replace(text) }

// RoundTrip makes a request with the login. After 401 and 403 it reads the login anew, and if that
// has changed, it tries once more. A redirect has no Location, and its body says where it leads.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	was := c.login.Load()
	answer, err := c.to.RoundTrip(c.with(was, r))
	if err != nil {
		return nil, err
	}
	if code := answer.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden {
		now, err := c.read()
		if errors.As(err, new(*unusable)) {
			c.log.Warn("a secret was read again and cannot be used: the one before stays", "reason", err.Error())
			now, err = was, nil
		}
		if err != nil {
			answer.Body.Close()
			return nil, &SecretError{fmt.Errorf("%s answers %s, and the login cannot be read again: %w", c.Place(), answer.Status, err)}
		}
		if again, err := repeated(r); err == nil && !(reflect.DeepEqual(was.url, now.url) && reflect.DeepEqual(was.headers, now.headers)) {
			c.login.Store(now)
			answer.Body.Close()
			if answer, err = c.to.RoundTrip(c.with(now, again)); err != nil {
				return nil, err
			}
		}
	}
	c.bound(answer)
	return answer, nil
}

// with returns a copy of a request with a login.
func (c *Client) with(l *login, r *http.Request) *http.Request {
	own := r.Clone(r.Context())
	maps.Copy(own.Header, l.headers)
	if l.url == c.base {
		return own
	}
	base, now, to := c.base.String(), l.url.String(), r.URL.String()
	if to == base {
		to = now
	} else if below, ok := strings.CutPrefix(to, strings.TrimSuffix(base, "/")); ok {
		to = strings.TrimSuffix(now, "/") + below
	}
	if u, err := url.Parse(to); err == nil {
		own.URL, own.Host = u, u.Host
	}
	return own
}

// repeated returns the request again, whose body was read.
func repeated(r *http.Request) (again *http.Request, err error) {
	again = r.Clone(r.Context())
	switch {
	case r.Body == nil:
	case r.GetBody == nil:
		return nil, errors.New("the body is gone")
	default:
		again.Body, err = r.GetBody()
	}
	return again, err
}

// bound cuts what an answer asks for, and hides secrets in what a server says of a refusal.
func (c *Client) bound(answer *http.Response) {
	answer.Status = c.Hidden(answer.Status)
	if text := answer.Header.Get("Retry-After"); text != "" {
		answer.Header.Del("Retry-After")
		if wait := min(asked(text), c.bounds.Pause); wait >= time.Second {
			answer.Header.Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
		}
	}
	if where, err := answer.Location(); err == nil && answer.StatusCode/100 == 3 {
		answer.Header.Del("Location")
		answer.Body.Close()
		text := fmt.Appendf(nil, "a redirect to %s, which is not followed", message.Printable(place(where)))
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		return
	}
	if answer.StatusCode/100 == 2 {
		answer.Body = &boundedBody{ReadCloser: answer.Body, bound: c.bounds.Answer, left: c.bounds.Answer}
		return
	}
	answer.Body, answer.ContentLength = &refusalBody{ReadCloser: answer.Body, hidden: c.Hidden}, -1
}

// refusalBody is what a server says of a refusal, without secrets.
type refusalBody struct {
	io.ReadCloser
	hidden func(string) string
	text   *strings.Reader
	err    error
}

func (b *refusalBody) Read(p []byte) (int, error) {
	if b.text == nil {
		var text []byte
		text, b.err = io.ReadAll(io.LimitReader(b.ReadCloser, refusalAnswer))
		b.text = strings.NewReader(b.hidden(string(text)))
	}
	n, err := b.text.Read(p)
	if err == io.EOF {
		err = cmp.Or(b.err, io.EOF)
	}
	return n, err
}

// asked is the pause for which a Retry-After asks: seconds, or until a time; 0 if it does not.
func asked(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return 1<<63 - 1
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return time.Until(at)
}

// Temporary reports whether the same request may be answered otherwise later, after an answer of
// that code: 408, 425, 429, or 500 and above.
func Temporary(code int) bool {
	return code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500
}

// boundedBody fails where a body is longer than its bound.
type boundedBody struct {
	io.ReadCloser
	bound, left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left > 0 {
		n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		return n, err
	}
	var more [1]byte
	n, err := b.ReadCloser.Read(more[:])
	if n > 0 {
		return 0, TooLong(b.bound)
	}
	return 0, err
}

// Bare is an error of a request without the URL, which may hold a secret.
func Bare(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
