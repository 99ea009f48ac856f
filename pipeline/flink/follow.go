package flink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

const (
	// stableAfter is how long all tasks have to run until a job counts as started.
	stableAfter = 2 * time.Second
	// startTimeout is the maximum time for the start of a job.
	startTimeout = time.Minute
	// maxOutage is how long Follow tolerates an unreachable JobManager.
	maxOutage = time.Minute
	// maxAttempts is the maximum number of restarts before the first complete checkpoint.
	maxAttempts = 3
)

// Start waits until the job runs or has ended. It cancels a job that cannot run, and returns an error with the reason.
func (j *Job) Start(ctx context.Context) error {
	deadline := time.Now().Add(startTimeout)
	var runningSince time.Time
	for range every(ctx, poll) {
		s, err := j.Status(ctx)
		switch {
		case err != nil:
			return err
		case s.Ended() && s.State != "FAILED":
			return nil
		case s.Cause != "":
			return j.giveUp(ctx, s)
		case !s.runs():
			runningSince = time.Time{}
		case runningSince.IsZero():
			runningSince = time.Now()
		case time.Since(runningSince) > stableAfter:
			return nil
		}
		if time.Now().After(deadline) {
			s.Cause = fmt.Sprintf("its tasks do not run after %v", startTimeout)
			return j.giveUp(ctx, s)
		}
	}
	return context.Cause(ctx)
}

// giveUp cancels a job that does not run.
func (j *Job) giveUp(ctx context.Context, s Status) error {
	err := clusterError(fmt.Sprintf("the job %s fails: %s", j.Name, s.Cause), j.final)
	if s.Ended() {
		return err
	}
	return errors.Join(err, j.Cancel(ctx))
}

// Follow waits until the job has ended, and logs changes of its state. It returns an error if the job failed or was
// cancelled. Flink restarts a failing job; Follow cancels a job that keeps failing without a complete checkpoint, or
// fails with Options.Final. The returned error then wraps Final. Follow tolerates short outages of the JobManager.
func (j *Job) Follow(ctx context.Context, log *slog.Logger) error {
	var last Status
	answered, silent := time.Now(), false
	for range every(ctx, time.Second) {
		s, err := j.Status(ctx)
		refused, _ := errors.AsType[*restError](err)
		if refused != nil && refused.code == http.StatusNotFound {
			return j.lost(last)
		}
		if err != nil && (ctx.Err() != nil || refused != nil && refused.code < 500 || time.Since(answered) > maxOutage) {
			return err
		}
		if err != nil {
			if !silent {
				log.Warn("cannot get the status of the job: trying again", "job", j.Name, "reason", err)
			}
			silent = true
			continue
		}
		answered, silent = time.Now(), false
		if s.State != last.State {
			log.Info("the job's state", "job", j.Name, "state", s.State)
		}
		final := contains(s.Cause, j.final)
		if s.CausedAt.After(last.CausedAt) && !final {
			log.Warn("the job failed and is restarted", "job", j.Name, "reason", s.Cause)
		}
		if s.Restored > last.Restored {
			log.Info("the job was restored", "job", j.Name)
		}
		switch {
		case s.State == "FAILED", final, s.Restarts >= maxAttempts && s.Completed == 0:
			return j.giveUp(ctx, s)
		case s.State == "CANCELED":
			return fmt.Errorf("the job %s was cancelled, by hafvf stop or by someone else, and not by this program", j.Name)
		case s.Ended():
			return nil
		}
		last = s
	}
	return context.Cause(ctx)
}

// lost returns the error for a job that the JobManager no longer knows because the JobManager was restarted. A highly
// available JobManager knows its jobs as soon as it answers.
func (j *Job) lost(last Status) error {
	err := fmt.Errorf("the JobManager at %s no longer knows the job %s, %s: it was restarted", j.cluster.place(), j.Name, j.ID)
	if last.Checkpoint == nil || last.Checkpoint.Path == "" {
		return err
	}
	return fmt.Errorf("%w; resume from the last known checkpoint, %s (hafvf run CONFIG --savepoint PATH)", err, last.Checkpoint.Path)
}
