// Package webhook sends records to a URL, as JSON over HTTP.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
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
	Form    string                 // the Name of one of Forms; by default the first
	// SendResolved is set if records tell when novelties and changes end. For an Alertmanager they then last
	// until that.
	SendResolved bool `json:"Ends"`
	// Batches has what tells that keys fall silent or recover go in one request in a minute, unless
	// another alert goes before.
	Batches bool `json:",omitempty"`
	// Key are the labels that the source joins to keys; none if a key may be a series.
	Key []string `json:",omitempty"`
}

// A Form is how a kind of receivers takes records. One that encodes them takes the alerts of package records.
type Form struct {
	Name   string                                      // the key of such a receiver in a config
	Called string                                      // such a receiver in a sentence
	Doc    string                                      // of the key
	Single bool                                        // a request is one record, else an array of them
	path   string                                      // below the URL
	encode func(s Sink, record []byte) ([]byte, error) // nil: as it is
	keeps  bool                                        // such a receiver keeps alerts by their labels
}

// Forms are those of all receivers.
var Forms = []Form{
	{Name: "webhook", Called: "a webhook",
		Doc: "A URL that gets alerts as JSON arrays by POST, at least once: repeats have the same id and kind. Up to 10,000 wait for an unreachable receiver, with a changelog also over restarts. What it refuses goes to the dead letter."},
	{Name: "alertmanager", Called: "an Alertmanager", path: "api/v2/alerts", encode: forAlertmanager, keeps: true,
		Doc: "URL of a Prometheus Alertmanager. Alerts have the labels alertname (hafvf), key, kind, those of the series or that all keys of an incident share, and labels. recovered and the end of an incident resolve an alert; others end by its resolve_timeout."},
	{Name: "slack", Called: "Slack", Single: true, encode: forSlack,
		Doc: "An incoming webhook of Slack: a message for each alert, with the id of an incident, not in threads."},
}

// form is how the sink takes records.
func (s Sink) form() Form {
	return Forms[max(0, slices.IndexFunc(Forms, func(f Form) bool { return f.Name == s.Form }))]
}

// Stateful reports whether the receiver keeps alerts by their labels until they are resolved.
func (s Sink) Stateful() bool { return s.form().keeps }

// String is the receiver in a sentence, without its URL.
func (s Sink) String() string { return s.form().Called }

// requests is the policy by which requests are repeated, for as long as it takes.
var requests = retry.Policy{First: 500 * time.Millisecond, Last: 30 * time.Second}

// A Client sends. It is safe for concurrent use.
type Client struct {
	sink  Sink
	form  Form
	to    *httpclient.Client
	url   string
	batch int
	retry retry.Policy
}

// NewClient makes a client of a sink. It does not connect. log may be nil.
func NewClient(s Sink, log *slog.Logger) (*Client, error) {
	form := s.form()
	to, err := httpclient.New(form.Name, httpclient.Server{URL: s.URL, Headers: s.Headers, Timeout: s.Timeout}, httpclient.Bounds{Pause: requests.Last}, log)
	if err != nil {
		return nil, err
	}
	c := &Client{sink: s, form: form, to: to, url: to.Base().String(), batch: max(s.Batch, 1), retry: requests}
	if form.path != "" {
		c.url = to.Base().JoinPath(form.path).String()
	}
	if form.Single {
		c.batch = 1
	}
	return c, nil
}

// Post sends JSON records once, as one array if it can; with a Single form there is one. It returns
// for each record why it was not taken; nil if it was. Temporary errors are those after which another
// attempt may help: if nobody answers, or the answer is 408, 425, 429, or 500 and above.
//
// After 401 and 403 it has tried with the secrets as they are now. After 400 and 413 Post
// divides the array, until a record that the receiver does not take stands alone. Every other
// answer but 2xx, also a redirect, is final. The receiver may have taken records of which Post
// says otherwise: it recognises them by their ids.
func (c *Client) Post(ctx context.Context, records [][]byte) (results []error) {
	results = make([]error, len(records))
	bodies, at := make([][]byte, 0, len(records)), make([]int, 0, len(records))
	for i, r := range records {
		if c.form.encode != nil {
			if r, results[i] = c.form.encode(c.sink, r); results[i] != nil {
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
	f, attempted := errors.AsType[*httpclient.AttemptError](err)
	if len(records) > 1 && attempted && (f.Code == http.StatusBadRequest || f.Code == http.StatusRequestEntityTooLarge) {
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
	f, attempted := errors.AsType[*httpclient.AttemptError](err)
	return attempted && f.Again
}

// post sends records once, as one array, or the one of a Single form.
func (c *Client) post(ctx context.Context, records [][]byte) error {
	body := bytes.Join(records, []byte{','})
	if !c.form.Single {
		body = slices.Concat([]byte{'['}, body, []byte{']'})
	}
	err := c.to.Post(ctx, c.url, http.Header{"Content-Type": {"application/json"}}, body)
	f, attempted := errors.AsType[*httpclient.AttemptError](err)
	switch {
	case !attempted:
		return err
	case f.Code == 0:
		f.Err = fmt.Errorf("%s does not answer: %w", c.to.Place(), f.Err)
	default:
		f.Err = fmt.Errorf("%s answers %s: %s", c.to.Place(), f.Status, message.Printable(f.Text))
	}
	if f.Code/100 == 3 {
		f.Err = fmt.Errorf("%w; set %s.url to where the receiver is", f.Err, c.form.Name)
	}
	return f
}
