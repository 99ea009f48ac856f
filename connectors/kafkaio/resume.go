package kafkaio

import (
	"errors"
	"fmt"
)

// A ResumeError says why a run cannot go on from the offsets and states that are stored:
// the changelog does not belong to the offsets, or the records are gone, because a topic
// was deleted and created again or because brokers have lost them. A ledger with BeginAnew
// discards what is stored. A source without a ledger has its offsets from the runner, and
// its error says so.
type ResumeError struct{ Err error }

func (e *ResumeError) Error() string { return e.Err.Error() }
func (e *ResumeError) Unwrap() error { return e.Err }

// anotherTopic is the error where a topic has another id than it had; nil where one of
// the two is not known.
func anotherTopic(name, was, is string) error {
	if was == "" || is == "" || was == is {
		return nil
	}
	return permanentError{&ResumeError{fmt.Errorf("topic %q was deleted and created again (its id was %s and is %s): offsets and states are of the records that are gone", name, was, is)}}
}

// beyond is the error for an offset after the end.
func beyond(end int64) error {
	return &ResumeError{fmt.Errorf("its end is %d: records were lost, or the topic was deleted and created again", end)}
}

// ofRunner is the error of a source without a ledger. It adds how to begin anew.
func ofRunner(err error) error {
	if errors.As(err, new(*ResumeError)) {
		return fmt.Errorf("%w; start the job without the savepoint or checkpoint, which reads from where the source starts, with keys that start without states", err)
	}
	return err
}
