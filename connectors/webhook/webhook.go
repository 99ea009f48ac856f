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
	"time"

	"hafvf/connectors/internal/retry"
	"hafvf/internal/message"
	"hafvf/internal/secret"
)

// A Sink is where records are sent, and how.
type Sink struct {
	URL     Value
	Headers map[string]Value // by name, in addition to Content-Type
	Batch   int              // largest number of records in one request
	Timeout time.Duration    // of one request
	// Alertmanager is set if the URL is that of a Prometheus Alertmanager. Records are then
	// alerts of package records, and are sent in the form of its API, version 2.
	Alertmanager bool
}

// section is the key of the sink in a config.
func (s Sink) section() string {
	if s.Alertmanager {
		return "alertmanager"
	}
	return "webhook"
}

// A Value is a text, or where a secret text stands.
type Value struct {
	Text string
	secret.Secret
}

// value returns the text; key names it in an error.
func (v Value) value(key string) (string, error) {
	if v.Secret == (secret.Secret{}) {
		return v.Text, nil
	}
	return v.Secret.Value(key)
}

// requests is the policy by which requests are repeated.
var requests = retry.Policy{First: 500 * time.Millisecond, Last: 30 * time.Second, Budget: 10 * time.Minute}

// CheckURL says why text is no URL of a receiver. It does not repeat it: it may be secret.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("must be http://… or https://… with a host")
	}
	return u, nil
}

// A Client sends. It is safe for concurrent use.
type Client struct {
	url     string
	place   string // of the URL, for messages: a path may be a secret
	headers http.Header
	batch   int
	http    *http.Client
	retry   retry.Policy
	encode  func(record []byte) ([]byte, error) // nil: as it is
}

// NewClient makes a client of a sink. It does not connect.
func NewClient(s Sink) (*Client, error) {
	text, err := s.URL.value(s.section() + ".url")
	if err != nil {
		return nil, err
	}
	u, err := parseURL(text)
	if err != nil {
		return nil, fmt.Errorf("%s.url: %w", s.section(), err)
	}
	c := &Client{
		url: text, place: u.Scheme + "://" + u.Host, headers: http.Header{}, batch: max(s.Batch, 1),
		http: &http.Client{Timeout: s.Timeout}, retry: requests,
	}
	if s.Alertmanager {
		c.url, c.encode = u.JoinPath(alertmanagerPath).String(), forAlertmanager
	}
	for name, v := range s.Headers {
		text, err := v.value(s.section() + ".headers." + name)
		if err != nil {
			return nil, err
		}
		c.headers.Set(name, text)
	}
	c.headers.Set("Content-Type", "application/json")
	return c, nil
}

// Post sends JSON records as one array. It tries again, with growing pauses, where nobody
// answers or the answer says that it may help: 408, 425, 429 and from 500 on. Every other
// answer but 2xx, and the end of ten minutes, is an error. The receiver may have taken
// records that Post sends again: it recognises them by their ids.
func (c *Client) Post(ctx context.Context, records [][]byte) error {
	if c.encode != nil {
		encoded := make([][]byte, len(records))
		for i, r := range records {
			var err error
			if encoded[i], err = c.encode(r); err != nil {
				return err
			}
		}
		records = encoded
	}
	body := append([]byte{'['}, bytes.Join(records, []byte{','})...)
	body = append(body, ']')
	return c.retry.Do(ctx, func(ctx context.Context) error { return c.send(ctx, body) }, func(err error) bool {
		var f *failure
		return errors.As(err, &f) && f.again
	})
}

// A failure is the error of one attempt.
type failure struct {
	error
	again bool          // another attempt may help
	wait  time.Duration // for which the receiver asks
}

func (f *failure) Unwrap() error             { return f.error }
func (f *failure) RetryAfter() time.Duration { return f.wait }

// send sends body once.
func (c *Client) send(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", c.place, withoutURL(err))
	}
	r.Header = c.headers.Clone()
	answer, err := c.http.Do(r)
	if err != nil {
		return &failure{error: fmt.Errorf("%s does not answer: %w", c.place, withoutURL(err)), again: true}
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // so that the connection can be used again
	code := answer.StatusCode
	if code/100 == 2 {
		return nil
	}
	f := &failure{error: fmt.Errorf("%s answers %s: %s", c.place, answer.Status, message.Printable(string(said)))}
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
