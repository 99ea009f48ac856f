// Package registry reads and writes records of Kafka topics whose schemas are in a schema registry: Avro, Protobuf
// and JSON Schema in Confluent's wire format, which other registries support too.
//
// A registered kafkaio.Reading converts keys and values to JSON, the form of records without a registry. A
// registered kafkaio.Writing converts lines of JSON to Avro.
package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"hafvf/connectors/internal/retry"
	"hafvf/connectors/kafkaio"
	"hafvf/internal/httpclient"
	"hafvf/internal/message"
	"hafvf/internal/reminder"
	"hafvf/internal/secret"
	"hafvf/internal/weburl"
)

// A Config describes how to reach a registry. It is plain data that workers receive as JSON. It contains no
// secrets, only where to find them.
type Config struct {
	URL      string
	Username string        // empty for a registry without login
	Password secret.Secret // of Username
	TLS      *kafkaio.TLS  // nil trusts the system's authorities
}

// CheckURL returns an error if text is not the URL of a registry.
func CheckURL(text string) error {
	u, err := weburl.Parse(text)
	switch {
	case err != nil:
		return err
	case u.User != nil:
		return errors.New("must not contain a login: set username and password instead")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must not have a query or a fragment")
	}
	return nil
}

const (
	// requestTimeout is the maximum duration of one request.
	requestTimeout = 10 * time.Second
	// reminderInterval is the time between two warnings during an outage.
	reminderInterval = 30 * time.Second
)

var (
	// retryPolicy sets the pauses between attempts. Their number is not limited.
	retryPolicy = retry.Policy{First: 200 * time.Millisecond, Last: 5 * time.Second}
	// loginPause is the time before a refused login is tried once more, because the password may change at the
	// registry first.
	loginPause = 2 * time.Second
)

// Check checks that the registry is available and accepts the login.
func (c Config) Check(ctx context.Context) error {
	err := c.ask(ctx, func(ctx context.Context, cl *sr.Client) error {
		text, err := cl.SchemaByID(ctx, 1) // schema 1 need not exist
		if hasStatus(err, http.StatusForbidden) {
			_, err = cl.Subjects(ctx) // the user may be allowed to read other schemas
			return err
		}
		return cmp.Or(err, checkPresent(text))
	})
	if notFound(err) {
		return nil
	}
	return c.explain(err)
}

// ask sends one request to the registry. Requests are rare, so each has its own client, which reads the current
// password and certificates.
func (c Config) ask(ctx context.Context, do func(context.Context, *sr.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client, err := httpclient.New("registry", httpclient.Server{URL: secret.Text{Text: c.URL}, TLS: c.TLS, Username: c.Username, Password: c.Password}, httpclient.Bounds{}, nil)
	if err != nil {
		return settingError{err}
	}
	defer client.CloseIdleConnections()
	cl, err := sr.NewClient(sr.URLs(c.URL), sr.HTTPClient(client.HTTP()), sr.UserAgent("hafvf"))
	if err != nil {
		return settingError{err}
	}
	return do(ctx, cl)
}

// askUntilAnswered sends requests until the registry answers. It logs an outage.
func (c Config) askUntilAnswered(ctx context.Context, log *slog.Logger, do func(context.Context, *sr.Client) error) error {
	var outage reminder.Reminder
	logins := 0
	err := retryPolicy.Do(ctx, func(ctx context.Context) error {
		err := c.ask(ctx, do)
		if hasStatus(err, http.StatusUnauthorized) {
			if logins++; logins == 1 {
				return firstRefusal{err}
			}
		}
		return err
	}, func(err error) bool {
		switch {
		case errors.As(err, new(firstRefusal)):
		case !retryable(err):
			return false
		case outage.Due(reminderInterval):
			log.Warn("the schema registry does not answer: trying again", "url", c.URL, "for", outage.Lasts().Round(time.Second).String(), "error", err)
		}
		return true
	})
	if err == nil && !outage.Since.IsZero() {
		log.Info("the schema registry answers again", "url", c.URL, "after", outage.Lasts().Round(time.Millisecond).String())
	}
	return err
}

// A firstRefusal is the first refusal of a login. It is retried after loginPause.
type firstRefusal struct{ error }

func (firstRefusal) RetryAfter() time.Duration { return loginPause }
func (r firstRefusal) Unwrap() error           { return r.error }

// A settingError is an error in a setting of the config.
type settingError struct{ error }

func (s settingError) Unwrap() error { return s.error }

// hasStatus reports whether the registry has answered with one of the HTTP statuses.
func hasStatus(err error, statuses ...int) bool {
	var r *sr.ResponseError
	return errors.As(err, &r) && slices.Contains(statuses, r.StatusCode)
}

// notFound reports whether the registry has answered that the schema or subject does not exist.
func notFound(err error) bool {
	var r *sr.ResponseError
	return errors.As(err, &r) && r.StatusCode == http.StatusNotFound && r.ErrorCode/100 == http.StatusNotFound
}

// tooLong reports whether the answer was too long for a schema.
func tooLong(err error) bool { return errors.As(err, new(httpclient.TooLong)) }

// retryable reports whether another attempt may succeed after err. A 404 without an error code of the registry is
// retryable: it may come from a proxy while the registry starts.
func retryable(err error) bool {
	var r *sr.ResponseError
	switch {
	case errors.As(err, new(settingError)) || errors.As(err, new(*httpclient.SecretError)) || tooLong(err) || notFound(err):
		return false
	case errors.As(err, &r):
		return r.StatusCode >= 500 || hasStatus(err, http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests)
	}
	return !untrusted(err)
}

// explain turns an error into a sentence that names the setting to change.
func (c Config) explain(err error) error {
	if err == nil || errors.As(err, new(settingError)) {
		return err
	}
	var r *sr.ResponseError
	switch {
	case hasStatus(err, http.StatusUnauthorized) && c.Username == "":
		return fmt.Errorf("the schema registry %s requires a login: set registry.username and registry.password", c.URL)
	case hasStatus(err, http.StatusUnauthorized):
		return fmt.Errorf("the schema registry %s refuses the login of user %q: set registry.username, and the password in %s", c.URL, c.Username, c.Password.Where())
	case hasStatus(err, http.StatusForbidden):
		return fmt.Errorf("the schema registry %s refuses %s: set registry.username and registry.password, or allow it to read the schemas of the topics and to register those of sinks: %w", c.URL, c.user(), err)
	case errors.As(err, &r) && r.StatusCode == http.StatusNotFound || errors.Is(err, errNoSchema):
		return fmt.Errorf("there is no schema registry at %s: set registry.url, with the path under which the registry answers as Confluent's does", c.URL)
	case errors.As(err, &r) && r.StatusCode/100 == 3:
		return fmt.Errorf("the schema registry %s answers: %w; set registry.url to where the registry is", c.URL, err)
	case untrusted(err):
		return fmt.Errorf("the schema registry %s shows a certificate that is not trusted: set registry.tls.ca to the authority's: %w", c.URL, message.Cause(err))
	case errors.As(err, new(*httpclient.SecretError)):
		return httpclient.Bare(err)
	case errors.As(err, &r) && r.StatusCode < 500 || tooLong(err):
		return fmt.Errorf("the schema registry %s answers: %w", c.URL, httpclient.Bare(err))
	}
	return fmt.Errorf("the schema registry %s does not answer: start it, or set registry.url: %w", c.URL, httpclient.Bare(err))
}

// untrusted reports whether a certificate is not trusted. A retry does not help then.
func untrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

func (c Config) user() string {
	if c.Username == "" {
		return "this client, which has no login"
	}
	return fmt.Sprintf("user %q", c.Username)
}

// formatName returns the name of a schema type in configs.
func formatName(t sr.SchemaType) string {
	if t == sr.TypeJSON {
		return JSONSchema
	}
	return strings.ToLower(t.String())
}
