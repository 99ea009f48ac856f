package kafkaio

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// An identity distinguishes runs, and shows an operator where a run is.
type identity struct {
	Run   string    `json:"run"` // random
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

func newIdentity() identity {
	host, _ := os.Hostname()
	return identity{rand.Text(), cmp.Or(host, "unknown"), os.Getpid(), time.Now().UTC().Truncate(time.Second)}
}

func (id identity) String() string {
	return fmt.Sprintf("run %s (host %s, process %d, since %s)", id.Run, id.Host, id.PID, id.Since.Format(time.RFC3339))
}

// A note is the metadata of a committed offset, as JSON. Brokers accept 4,096 bytes.
type note struct {
	identity
	Topic     string `json:"topic,omitempty"`     // the topic's ID
	Epoch     int32  `json:"epoch"`               // lower bound of the leader's epoch
	Changelog string `json:"changelog,omitempty"` // ID in the changelog's head
	Commit    int64  `json:"commit,omitempty"`    // number of the commit to the changelog
	pace
}

// readNote parses metadata. In a note without a run, the offset was committed by another program.
func readNote(metadata string) (n note) {
	if json.Unmarshal([]byte(metadata), &n) != nil {
		return note{}
	}
	return n
}

// groupOffsets returns the group's committed offsets of the partitions.
func (l *Ledger) groupOffsets(ctx context.Context, partitions map[string][]int) (map[string]partitionProgress, error) {
	if l.cfg.Group == "" || len(partitions) == 0 {
		return nil, nil
	}
	return l.cfg.Client.committed(ctx, l.cfg.Group, partitions)
}

// checkChangelog returns an error if the changelog does not belong to the group's offsets: it is missing, empty,
// older, or another one. exists reports whether the changelog exists.
func (l *Ledger) checkChangelog(exists bool) error {
	for _, log := range slices.Sorted(maps.Keys(l.opening)) {
		n := readNote(l.opening[log].metadata)
		states := l.hadStates()
		what := ""
		switch {
		case n.Run != "" && n.Changelog == "":
			continue // a run without states committed the offset
		case !exists:
			what = "does not exist"
		case n.Run == "" && states:
			continue // the offset was set by hand
		case l.head.ID == "":
			what = "is empty"
		case n.Run == "":
			what = "has no states"
		case l.head.ID != n.Changelog:
			what = fmt.Sprintf("has the id %s, but the offsets belong to the id %s", l.head.ID, n.Changelog)
		case n.Commit > l.head.Commit:
			what = fmt.Sprintf("is older than the offsets (its last commit has the number %d, but the offsets belong to number %d)", l.head.Commit, n.Commit)
		default:
			continue
		}
		return &ResumeError{fmt.Errorf("the changelog %s %s, and group %s has offsets of a run that stored states (%s is at %d): without these states, every later estimate would differ; restore the topic, name the right one, or discard the states",
			l.cfg.Changelog, what, l.cfg.Group, log, l.opening[log].Offset)}
	}
	return nil
}

// checkTopics returns an error if a topic was deleted and created again since the group's offsets were committed or
// the changelog was written.
func (l *Ledger) checkTopics(ctx context.Context) error {
	for name, t := range l.topics {
		if err := replacedTopicError(name, l.head.Topics[name], t.id); err != nil {
			return err
		}
	}
	for _, log := range slices.Sorted(maps.Keys(l.opening)) {
		p := l.opening[log]
		n, t := readNote(p.metadata), l.topics[p.Topic]
		if t.id != "" && n.Topic != "" {
			if err := replacedTopicError(p.Topic, n.Topic, t.id); err != nil {
				return err
			}
			continue
		}
		// Without ids, a new topic is detected by an end before the offset, or by leader epochs that restart.
		if t.epochs != nil && t.epochs[p.Partition] < n.Epoch {
			return &ResumeError{fmt.Errorf("topic %q was deleted and created again (the leader of %s had the epoch %d and has %d): offsets and states belong to the deleted records",
				p.Topic, log, n.Epoch, t.epochs[p.Partition])}
		}
		end, err := l.end(ctx, log)
		if err != nil {
			return err
		}
		if p.Offset > end {
			return fmt.Errorf("%s cannot be read at offset %d: %w", log, p.Offset, beyondEndError(end))
		}
	}
	return nil
}

// checkIncluded returns an error if states include records after the end of their partition. The topic was then
// replaced, which brokers without topic ids do not report.
func (l *Ledger) checkIncluded(ctx context.Context, included map[string]int64) error {
	for log, offset := range included {
		p, ok := parsePosition(log, offset)
		if t, read := l.topics[p.Topic]; !ok || !read || p.Partition >= t.partitions {
			continue // the source no longer reads the partition
		}
		end, err := l.end(ctx, log)
		if err != nil {
			return err
		}
		if p.Offset >= end {
			return fmt.Errorf("states in the changelog %s include the record %s: %w", l.cfg.Changelog, p, beyondEndError(end))
		}
	}
	return nil
}

// end returns the offset after a partition's last record. The first call asks for all partitions at once.
func (l *Ledger) end(ctx context.Context, log string) (int64, error) {
	if l.ends != nil {
		return l.ends[log], nil
	}
	ends, err := l.cfg.Client.offsets(ctx, partitionsOf(l.topics), atEnd, false)
	if err != nil {
		return 0, err
	}
	l.ends = ends
	return ends[log], nil
}

// newHead updates the head for this run, which becomes the owner. It replaces the head if the changelog is new, or
// with DiscardStates.
func (l *Ledger) newHead(ctx context.Context) error {
	id := l.head.ID
	if l.cfg.DiscardStates {
		id = rand.Text()
	}
	if id == "" {
		topics, err := l.cfg.Client.describe(ctx, []string{l.cfg.Changelog})
		if err != nil {
			return err
		}
		id = cmp.Or(topics[l.cfg.Changelog].id, rand.Text())
	}
	if id != l.head.ID {
		l.head = changelogHead{ID: id, Commit: l.head.Commit, Marks: make([]int64, l.partitions)}
	}
	for name, t := range l.topics {
		if t.id != "" {
			if l.head.Topics == nil {
				l.head.Topics = map[string]string{}
			}
			l.head.Topics[name] = t.id
		}
	}
	l.head.Run, l.head.Ended, l.head.Use = &l.run, false, l.use()
	return nil
}

// commitOwned commits the entries that do puts, the marks, the head and the group's offsets in one transaction. If
// this run is no longer the owner of the changelog, the error names the owner.
func (l *Ledger) commitOwned(ctx context.Context, do func(*commitEntries), offsets map[string]partitionProgress) error {
	l.head.Commit++
	err := l.owner.commit(ctx, func(put func(entry)) {
		e := &commitEntries{head: &l.head, parts: l.parts, maxBatch: int(l.owner.batch), wrote: map[int32]bool{}, put: put}
		do(e)
		e.end()
	}, offsets)
	if !errors.Is(err, errChangelogTaken) {
		return err
	}
	switch other, unknown := l.successor(ctx); {
	case unknown != nil:
		return fmt.Errorf("another run has taken over the changelog %s, and its identity cannot be read (%w): stop one of them, or give them different groups and changelogs", l.cfg.Changelog, unknown)
	case other == nil:
		return fmt.Errorf("the brokers aborted a commit to the changelog %s that took this process longer than %s: start it again, and it resumes: %w", l.cfg.Changelog, transactionTime, err)
	default:
		return fmt.Errorf("another run has taken over the changelog %s: %s; the brokers refuse the writes of this one: stop one of them, or give them different groups and changelogs", l.cfg.Changelog, other)
	}
}

// successor returns the run that the head of the changelog names. A run becomes the owner before it writes the head,
// so successor waits. It returns nil if the head still names this run after startTimeout.
func (l *Ledger) successor(ctx context.Context) (*identity, error) {
	var h changelogHead
	err := requests(startTimeout).Do(ctx, func(context.Context) error { // a large changelog may take longer
		s, err := readStored(ctx, l.cfg.Client, l.cfg.Changelog, nil, l.cfg.Log)
		if err != nil {
			return err
		}
		h = s.head
		if h.Run == nil || h.Run.Run == l.run.Run {
			return errStillOwned
		}
		return nil
	}, func(err error) bool { return err == errStillOwned })
	if err == errStillOwned {
		return nil, nil
	}
	return h.Run, err
}

// errStillOwned means that the head of a changelog still names this run.
var errStillOwned = errors.New("the head names this run")

// checkGroup returns an error if another run has committed offsets of the group: the two runs would overwrite each
// other's states and offsets. Until this run has committed, the previous run may still commit; the previous run will
// then detect this one.
//
// Transactions fence the runs of one changelog. checkGroup also detects a run with another changelog, and other
// consumers. It may miss a commit between its check and the following commit, until the next check.
func (l *Ledger) checkGroup(ctx context.Context) error {
	partitions := partitionsOf(l.topics)
	l.mu.Lock()
	for _, p := range l.handedOver {
		if !slices.Contains(partitions[p.Topic], p.Partition) {
			partitions[p.Topic] = append(partitions[p.Topic], p.Partition)
		}
	}
	l.mu.Unlock()
	var now map[string]partitionProgress
	err := l.persist(ctx, "read", func(ctx context.Context) (err error) {
		now, err = l.groupOffsets(ctx, partitions)
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range slices.Sorted(maps.Keys(now)) {
		// An offset may appear a moment after its transaction, so current may still equal opening.
		current, opening := now[log], l.opening[log]
		n := readNote(current.metadata)
		ours, written := l.committed[log]
		switch {
		case n.Run == l.run.Run:
		case !written && n.Run != "" && n.Run == readNote(opening.metadata).Run:
		case current == opening:
		case n.Run != "":
			return fmt.Errorf("another run commits the offsets of group %s: %s; the two would overwrite each other's states and offsets: stop one of them, or give them different groups and changelogs",
				l.cfg.Group, n.identity)
		default:
			from := "none"
			if _, known := l.opening[log]; known || written {
				from = fmt.Sprint(opening.Offset)
			}
			if written {
				from = fmt.Sprint(ours.Offset)
			}
			return fmt.Errorf("another consumer, without a run id, moved the offset of group %s in %s from %s to %d: stop it, or give it another group",
				l.cfg.Group, log, from, current.Offset)
		}
	}
	return nil
}

// persist calls do, and retries while the group's coordinator is away. done is a participle for messages.
func (l *Ledger) persist(ctx context.Context, done string, do func(context.Context) error) error {
	var trouble outage
	err := requests(deliveryTime).Do(ctx, do, func(err error) bool {
		if hasMembers(err) || refused(err) {
			return false
		}
		trouble.warn(l.cfg.Log, err, "offsets cannot be "+done, "group", l.cfg.Group)
		return true
	})
	switch {
	case err == nil:
		return nil
	case hasMembers(err):
		return fmt.Errorf("the offsets of group %s cannot be %s: other consumers are members of it; use a separate group: %w", l.cfg.Group, done, err)
	}
	return fmt.Errorf("the offsets of group %s cannot be %s: %w", l.cfg.Group, done, err)
}

// hasMembers reports whether err means that the group has members. Then only members may commit offsets.
func hasMembers(err error) bool {
	return errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.RebalanceInProgress)
}
