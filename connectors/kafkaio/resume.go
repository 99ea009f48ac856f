package kafkaio

import (
	"errors"
	"fmt"
)

// A ResumeError is the reason why a run cannot resume from the stored offsets and states: the changelog does not
// belong to the offsets, or records are gone because a topic was deleted and created again or because brokers have
// lost them. A ledger with DiscardStates discards them. A source without a ledger gets its offsets from the
// runner; its error explains how to reset them.
type ResumeError struct{ Err error }

func (e *ResumeError) Error() string { return e.Err.Error() }
func (e *ResumeError) Unwrap() error { return e.Err }

// replacedTopicError returns an error if the ID of a topic has changed. It returns nil if one of the IDs is unknown.
func replacedTopicError(name, oldID, newID string) error {
	if oldID == "" || newID == "" || oldID == newID {
		return nil
	}
	return permanentError{&ResumeError{fmt.Errorf("topic %q was deleted and created again (its id was %s and is %s): offsets and states belong to the deleted records", name, oldID, newID)}}
}

// beyondEndError returns the error for an offset after the end of a partition.
func beyondEndError(end int64) error {
	return &ResumeError{fmt.Errorf("its end is %d: records were lost, or the topic was deleted and created again", end)}
}

// withRunnerHint adds to a ResumeError of a source without a ledger how to start without the stored offsets.
func withRunnerHint(err error) error {
	if errors.As(err, new(*ResumeError)) {
		return fmt.Errorf("%w; start the job without the savepoint or checkpoint: it then reads from the configured start, and keys start without states", err)
	}
	return err
}
