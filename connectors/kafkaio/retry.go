package kafkaio

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"hafvf/connectors/internal/retry"
	"hafvf/internal/reminder"
)

const (
	// deliveryTime is how long a request that stores something is retried, like delivery.timeout.ms of the Java
	// client.
	deliveryTime = 2 * time.Minute
	// startTimeout is how long a request is retried at the start of a run. A new cluster must first create a group's
	// coordinator.
	startTimeout = 30 * time.Second
	// noLimit is the budget of a request that is retried until its context ends.
	noLimit = 0

	// firstPause and lastPause equal retry.backoff.ms and retry.backoff.max.ms of the Java client.
	firstPause, lastPause = 100 * time.Millisecond, time.Second

	// warnInterval is the time between warnings about the same outage.
	warnInterval = 30 * time.Second
)

// requests returns the retry policy of all requests in this package.
func requests(budget time.Duration) retry.Policy {
	return retry.Policy{First: firstPause, Last: lastPause, Budget: budget}
}

// askPatiently calls do until it succeeds, fails for good, or has spent the budget. A cluster that is starting needs a
// while to answer.
func askPatiently(ctx context.Context, budget time.Duration, log *slog.Logger, do func(context.Context) error) error {
	var trouble outage
	return requests(budget).Do(ctx, do, func(err error) bool {
		// kafka-go reports one unreachable broker of several as Unknown.
		if !retryable(err) && !errors.Is(err, kafka.Unknown) {
			return false
		}
		trouble.warn(log, err, "Kafka does not answer")
		return true
	})
}

// An outage is a sequence of errors of one request.
type outage struct {
	reminder.Reminder
	staleSince time.Time // time of the first of the latest errors, if all of them may come from stale metadata; else zero
}

// staleFor returns for how long all errors, including err, may come from stale metadata.
func (o *outage) staleFor(err error) time.Duration {
	switch {
	case !errors.As(err, new(staleMetadataError)) && !errors.Is(err, kafka.UnknownTopicOrPartition):
		o.staleSince = time.Time{}
		return 0
	case o.staleSince.IsZero():
		o.staleSince = time.Now()
	}
	return time.Since(o.staleSince)
}

// warn logs the first error and then a reminder every warnInterval. The message is what, with
// the attributes attrs.
func (o *outage) warn(log *slog.Logger, err error, what string, attrs ...any) {
	if o.Due(warnInterval) {
		log.Warn(what+": trying again", append(attrs, "for", o.Lasts().Round(time.Second).String(), "error", err)...)
	}
}

// An unavailableError is the error for a broker that cannot be used now but may be usable later, because it may be
// starting.
type unavailableError struct{ error }

func (e unavailableError) Unwrap() error { return e.error }

// A staleMetadataError goes away by itself if brokers have yet to learn of a change. Otherwise it is permanent.
type staleMetadataError struct{ error }

func (e staleMetadataError) Unwrap() error { return e.error }

// A permanentError does not go away by retrying.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// refused reports whether a broker has refused this client for good.
func refused(err error) bool {
	for _, e := range []error{kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed, kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, new(*loginError))
}

// isUnknown reports whether the topic or partition does not exist, according to err.
func isUnknown(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition)
}

// retryable reports whether another attempt may succeed after err.
func retryable(err error) bool {
	var (
		code    kafka.Error
		network net.Error
		op      *net.OpError
	)
	switch {
	case errors.As(err, new(unavailableError)):
		return true
	case errors.As(err, &code):
		return code.Temporary() || code == kafka.BrokerNotAvailable || code == kafka.ReplicaNotAvailable
	case errors.Is(err, protocol.ErrNoLeader):
		return true
	case errors.As(err, &op) && op.Op == "remote error":
		return false // a TLS alert
	case errors.As(err, &network):
		return true
	}
	return hungUp(err) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
