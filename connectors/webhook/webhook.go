// Package webhook sends records to a URL, as JSON over HTTP.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"hafvf/connectors/internal/retry"
	"hafvf/internal/message"
	"hafvf/internal/secret"
	"hafvf/internal/weburl"
)

// A Sink is where records are sent, and how.
type Sink struct {
	URL     secret.Text
	Headers map[string]secret.Text // by name, in addition to Content-Type
	Batch   int                    // largest number of records in one request
	Timeout time.Duration          // of one request
	// Alertmanager is set if the URL is that of a Prometheus Alertmanager. Records are then
	// alerts of package records, and are sent in the form of its API, version 2.
	Alertmanager bool
	// Ends is set if records tell when novelties and changes end. For an Alertmanager they then last
	// until that.
	Ends bool
	// Key are the labels that the source joins to keys; none if a key may be a series.
	Key []string `json:",omitempty"`
}

// section is the key of the sink in a config.
func (s Sink) section() string {
	if s.Alertmanager {
		return "alertmanager"
	}
	return "webhook"
}

// requests is the policy by which requests are repeated, for as long as it takes.
var requests = retry.Policy{First: 500 * time.Millisecond, Last: 30 * time.Second}

// A Client sends. It is safe for concurrent use.
type Client struct {
	sink   Sink
	to     atomic.Pointer[target]
	batch  int
	http   *http.Client
	retry  retry.Policy
	encode func(record []byte) ([]byte, error) // nil: as it is
}

// A target is where requests go, with the secrets that were read last.
type target struct {
	url     string
	place   string // of the URL, for messages: a path may be a secret
	headers http.Header
}

// target reads URL and headers.
func (s Sink) target() (*target, error) {
	text, err := s.URL.Read(s.section() + ".url")
	if err != nil {
		return nil, err
	}
	u, err := weburl.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s.url: %w", s.section(), err)
	}
	to := &target{url: text, place: placeOf(u), headers: http.Header{}}
	if s.Alertmanager {
		to.url = u.JoinPath(alertmanagerPath).String()
	}
	for name, v := range s.Headers {
		text, err := v.Read(s.section() + ".headers." + name)
		if err != nil {
			return nil, err
		}
		to.headers.Set(name, text)
	}
	to.headers.Set("Content-Type", "application/json")
	return to, nil
}

// placeOf is what a message may say of a URL.
func placeOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// NewClient makes a client of a sink. It does not connect.
func NewClient(s Sink) (*Client, error) {
	to, err := s.target()
	if err != nil {
		return nil, err
	}
	c := &Client{sink: s, batch: max(s.Batch, 1), retry: requests, http: &http.Client{
		Timeout: s.Timeout,
		// Some redirects turn a POST into a GET without a body, and secret headers would go to
		// another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.to.Store(to)
	if s.Alertmanager {
		c.encode = func(record []byte) ([]byte, error) { return forAlertmanager(record, s.Ends, s.Key) }
	}
	return c, nil
}

// Post sends JSON records once, as one array if it can. It returns for each record why it was
// not taken; nil if it was. Temporary errors are those after which another attempt may help: if
// nobody answers, or the answer is 408, 425, 429, or 500 and above.
//
// After 401 and 403 Post reads the secrets again, and tries once more. After 400 and 413 it
// divides the array, until a record that the receiver does not take stands alone. Every other
// answer but 2xx, also a redirect, is final. The receiver may have taken records of which Post
// says otherwise: it recognises them by their ids.
func (c *Client) Post(ctx context.Context, records [][]byte) (results []error) {
	results = make([]error, len(records))
	bodies, at := make([][]byte, 0, len(records)), make([]int, 0, len(records))
	for i, r := range records {
		if c.encode != nil {
			if r, results[i] = c.encode(r); results[i] != nil {
				continue
			}
		}
		bodies, at = append(bodies, r), append(at, i)
	}
	c.postAll(ctx, bodies, func(i int, err error) { results[at[i]] = err })
	return results
}

// postAll posts records, and calls refuse for those that are not taken, by their index.
func (c *Client) postAll(ctx context.Context, records [][]byte, refuse func(i int, err error)) {
	if len(records) == 0 {
		return
	}
	err := c.post(ctx, records)
	if f := (*failure)(nil); len(records) > 1 && errors.As(err, &f) && (f.code == http.StatusBadRequest || f.code == http.StatusRequestEntityTooLarge) {
		half := len(records) / 2
		c.postAll(ctx, records[:half], refuse)
		c.postAll(ctx, records[half:], func(i int, err error) { refuse(half+i, err) })
		return
	}
	if err != nil {
		for i := range records {
			refuse(i, err)
		}
	}
}

// post sends records as one array.
func (c *Client) post(ctx context.Context, records [][]byte) error {
	body := append([]byte{'['}, bytes.Join(records, []byte{','})...)
	body = append(body, ']')
	err := c.send(ctx, c.to.Load(), body)
	if f := (*failure)(nil); !errors.As(err, &f) || f.code != http.StatusUnauthorized && f.code != http.StatusForbidden {
		return err
	}
	to, unread := c.sink.target()
	if unread != nil {
		return fmt.Errorf("%w; and the secrets cannot be read again: %w", err, unread)
	}
	c.to.Store(to)
	return c.send(ctx, to, body)
}

// temporary reports whether another attempt may help after an error of Post.
func temporary(err error) bool {
	f := (*failure)(nil)
	return errors.As(err, &f) && f.again
}

// pause is how long to wait after so many attempts, the last of which had that error.
func (c *Client) pause(tries int, err error) time.Duration {
	pause := c.retry.Pause(tries)
	if asker := (retry.Asker)(nil); errors.As(err, &asker) {
		pause = max(pause, asker.RetryAfter())
	}
	return pause
}

// A failure is the error of one attempt.
type failure struct {
	error
	code  int           // of the answer; 0 if there was none
	again bool          // another attempt may help
	wait  time.Duration // for which the receiver asks
}

func (f *failure) Unwrap() error             { return f.error }
func (f *failure) RetryAfter() time.Duration { return f.wait }

// send sends body once.
func (c *Client) send(ctx context.Context, to *target, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", to.place, withoutURL(err))
	}
	r.Header = to.headers.Clone()
	answer, err := c.http.Do(r)
	if err != nil {
		return &failure{error: fmt.Errorf("%s does not answer: %w", to.place, withoutURL(err)), again: true}
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // so that the connection can be used again
	code := answer.StatusCode
	if code/100 == 2 {
		return nil
	}
	f := &failure{error: fmt.Errorf("%s answers %s: %s", to.place, answer.Status, message.Printable(string(said))), code: code}
	if other, err := answer.Location(); err == nil && code/100 == 3 {
		f.error = fmt.Errorf("%s answers %s, a redirect to %s, which is not followed: name the URL that it leads to", to.place, answer.Status, placeOf(other))
	}
	f.again = code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		f.wait = min(time.Duration(seconds)*time.Second, c.retry.Last)
	}
	return f
}

// withoutURL is an error of net/http without the URL, which may hold a secret.
func withoutURL(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
