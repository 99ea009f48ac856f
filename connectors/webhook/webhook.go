// Package webhook sends records to a URL, as JSON over HTTP.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"hafvf/connectors/internal/retry"
	"hafvf/internal/httpclient"
	"hafvf/internal/message"
	"hafvf/internal/secret"
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
	// Batches has what tells that keys fall silent or recover go in one request in a minute, unless
	// another alert goes before.
	Batches bool `json:",omitempty"`
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
	section string // of the sink in a config
	to      *httpclient.Client
	url     string
	http    *http.Client
	batch   int
	retry   retry.Policy
	encode  func(record []byte) ([]byte, error) // nil: as it is
}

// NewClient makes a client of a sink. It does not connect. log may be nil.
func NewClient(s Sink, log *slog.Logger) (*Client, error) {
	to, err := httpclient.New(s.section(), httpclient.Server{URL: s.URL, Headers: s.Headers, Timeout: s.Timeout}, httpclient.Bounds{Answer: maxQuoted, Pause: requests.Last}, log)
	if err != nil {
		return nil, err
	}
	c := &Client{section: s.section(), to: to, url: to.Base().String(), http: to.HTTP(), batch: max(s.Batch, 1), retry: requests}
	if s.Alertmanager {
		c.url = to.Base().JoinPath(alertmanagerPath).String()
		c.encode = func(record []byte) ([]byte, error) { return forAlertmanager(record, s.Ends, s.Key) }
	}
	return c, nil
}

// Post sends JSON records once, as one array if it can. It returns for each record why it was
// not taken; nil if it was. Temporary errors are those after which another attempt may help: if
// nobody answers, or the answer is 408, 425, 429, or 500 and above.
//
// After 401 and 403 it has tried with the secrets as they are now. After 400 and 413 Post
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
	if f := (*attemptError)(nil); len(records) > 1 && errors.As(err, &f) && (f.code == http.StatusBadRequest || f.code == http.StatusRequestEntityTooLarge) {
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

// temporary reports whether another attempt may help after an error of Post.
func temporary(err error) bool {
	f := (*attemptError)(nil)
	return errors.As(err, &f) && f.again
}

// A failure is the error of one attempt.
type attemptError struct {
	error
	code  int           // of the answer; 0 if there was none
	again bool          // another attempt may help
	wait  time.Duration // for which the receiver asks
}

func (f *attemptError) Unwrap() error             { return f.error }
func (f *attemptError) RetryAfter() time.Duration { return f.wait }

// maxQuoted is how much of an answer is read.
const maxQuoted = 4 << 10

// post sends records once, as one array.
func (c *Client) post(ctx context.Context, records [][]byte) error {
	body := append([]byte{'['}, bytes.Join(records, []byte{','})...)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(append(body, ']')))
	if err != nil {
		return fmt.Errorf("%s: %w", c.to.Place(), httpclient.Bare(err))
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(r)
	switch err = httpclient.Bare(err); {
	case errors.As(err, new(*httpclient.SecretError)):
		return err
	case err != nil:
		return &attemptError{error: fmt.Errorf("%s does not answer: %w", c.to.Place(), err), again: true}
	}
	defer answer.Body.Close()
	quoted, _ := io.ReadAll(io.LimitReader(answer.Body, maxQuoted))
	code := answer.StatusCode
	if code/100 == 2 {
		return nil
	}
	why := fmt.Errorf("%s answers %s: %s", c.to.Place(), answer.Status, message.Printable(string(quoted)))
	if code/100 == 3 {
		why = fmt.Errorf("%w; set %s.url to where the receiver is", why, c.section)
	}
	return &attemptError{
		error: why,
		code:  code, again: httpclient.Temporary(code), wait: httpclient.RetryAfter(answer),
	}
}
