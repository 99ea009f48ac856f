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

// A Sink describes a receiver of records.
type Sink struct {
	URL     secret.Text
	Headers map[string]secret.Text // by name, in addition to Content-Type
	Batch   int                    // maximum number of records in one request
	Timeout time.Duration          // for one request
	Form    string                 // Name of a Form in Forms; the first one by default
	// SendResolved means that records also report the end of novelties and changes. An Alertmanager then keeps these alerts
	// until their end.
	SendResolved bool `json:"Ends"`
	// Repeat is the time after which open alerts are sent again, to a receiver that forgets them when it restarts. The
	// receiver ends an alert that is not repeated for several times. Zero means never.
	Repeat time.Duration `json:",omitempty"`
	// Batches sends reports of silent and recovered keys in at most one request per minute. Another alert may send
	// them earlier.
	Batches bool `json:",omitempty"`
	// Key contains the labels that the source joins to keys. It is empty if a key may be a series.
	Key []string `json:",omitempty"`
}

// A Form is a kind of receiver. A Form that encodes records accepts only alerts of package records.
type Form struct {
	Name   string                                      // of the receiver's key in a config
	Called string                                      // the receiver in a sentence
	Doc    string                                      // documentation of the key
	Single bool                                        // a request contains one record instead of an array
	path   string                                      // appended to the URL
	encode func(s Sink, record []byte) ([]byte, error) // nil sends the record unchanged
	// change returns what a record does to the alerts that the receiver stores by their labels; nil if it stores none.
	change func(s Sink, record []byte) (change, error)
}

// Forms are the supported receivers.
var Forms = []Form{
	{Name: "webhook", Called: "a webhook",
		Doc: "A URL that gets alerts as JSON arrays by POST, at least once: repeats have the same id and kind. Up to 10,000 alerts wait for an unreachable receiver, with a changelog also across restarts. Refused alerts go to the dead letter."},
	{Name: "alertmanager", Called: "an Alertmanager", path: "api/v2/alerts", encode: forAlertmanager, change: alertmanagerChange,
		Doc: "URL of a Prometheus Alertmanager. Alerts have the labels alertname (hafvf), key, kind, the labels of the series or of all keys of an incident, and alerts.labels. Alerts of episodes, silences and incidents are resolved at their end, others by resolve_timeout."},
	{Name: "slack", Called: "Slack", Single: true, encode: forSlack,
		Doc: "An incoming webhook of Slack. It gets a message per alert, with the id of an incident, not in threads."},
}

// form returns the Form of the sink, by default the first one.
func (s Sink) form() Form {
	return Forms[max(0, slices.IndexFunc(Forms, func(f Form) bool { return f.Name == s.Form }))]
}

// Stateful reports whether the receiver stores alerts by their labels until they are resolved.
func (s Sink) Stateful() bool { return s.form().change != nil }

// String returns the receiver's name in a sentence, without its URL.
func (s Sink) String() string { return s.form().Called }

// retryPolicy sets the pauses between attempts. Their number is not limited.
var retryPolicy = retry.Policy{First: 500 * time.Millisecond, Last: 30 * time.Second}

// A Client sends records to a Sink. It is safe for concurrent use.
type Client struct {
	sink   Sink
	form   Form
	client *httpclient.Client
	url    string
	batch  int
	retry  retry.Policy
}

// NewClient returns a client for a sink. It does not connect. log may be nil.
func NewClient(s Sink, log *slog.Logger) (*Client, error) {
	form := s.form()
	client, err := httpclient.New(form.Name, httpclient.Server{URL: s.URL, Headers: s.Headers, Timeout: s.Timeout}, httpclient.Bounds{Pause: retryPolicy.Last}, log)
	if err != nil {
		return nil, err
	}
	c := &Client{sink: s, form: form, client: client, url: client.Base().String(), batch: max(s.Batch, 1), retry: retryPolicy}
	if form.path != "" {
		c.url = client.Base().JoinPath(form.path).String()
	}
	if form.Single {
		c.batch = 1
	}
	return c, nil
}

// Post sends JSON records once, in one array if possible. With a Single form, records must contain at most one
// record. For each record Post returns nil if the receiver accepted it, and otherwise the reason.
//
// Some errors are temporary: no answer, or the status 408, 425, 429, or 500 and above. After 401 and 403 Post tries
// again with the current secrets. After 400 and 413 it divides the array until each refused record is alone. Every
// other status except 2xx is final, also a redirect.
//
// The receiver may have accepted a record for which Post returns an error. It recognises repeats by their IDs.
func (c *Client) Post(ctx context.Context, records [][]byte) (results []error) {
	results = make([]error, len(records))
	bodies, indexes := make([][]byte, 0, len(records)), make([]int, 0, len(records))
	for i, r := range records {
		if c.form.encode != nil {
			if r, results[i] = c.form.encode(c.sink, r); results[i] != nil {
				continue
			}
		}
		bodies, indexes = append(bodies, r), append(indexes, i)
	}
	c.postAll(ctx, bodies, func(i int, err error) { results[indexes[i]] = err })
	return results
}

// postAll posts records, and calls refuse with the index and error of each record that the receiver did not accept.
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

// temporary reports whether another attempt may succeed after an error of Post.
func temporary(err error) bool {
	f, attempted := errors.AsType[*httpclient.AttemptError](err)
	return attempted && f.Again
}

// post sends records once: as one array or, with a Single form, as a single record.
func (c *Client) post(ctx context.Context, records [][]byte) error {
	body := bytes.Join(records, []byte{','})
	if !c.form.Single {
		body = slices.Concat([]byte{'['}, body, []byte{']'})
	}
	err := c.client.Post(ctx, c.url, http.Header{"Content-Type": {"application/json"}}, body)
	f, attempted := errors.AsType[*httpclient.AttemptError](err)
	switch {
	case !attempted:
		return err
	case f.Code == 0:
		f.Err = fmt.Errorf("%s does not answer: %w", c.client.Place(), f.Err)
	default:
		f.Err = fmt.Errorf("%s answers %s: %s", c.client.Place(), f.Status, message.Printable(f.Text))
	}
	if f.Code/100 == 3 {
		f.Err = fmt.Errorf("%w; set %s.url to where the receiver is", f.Err, c.form.Name)
	}
	return f
}
