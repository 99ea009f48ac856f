package kafkaio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// A StoredState is the state of a key in a changelog.
type StoredState struct {
	Position
	Key   string
	Bytes []byte
	// Err is set by LedgerConfig.Open if the state cannot be read. Restore returns it.
	Err error
	// Replaced is set by LedgerConfig.Open if it has replaced Bytes by a new state. The first commit stores the new
	// state.
	Replaced bool
	// Claimed is set by LedgerConfig.Open if it keeps the state itself, or drops it. Restore does not return the state.
	Claimed bool
}

// hadStates reports whether the changelog contains states, or contained states that were deleted.
func (l *Ledger) hadStates() bool { return l.keys > 0 || l.head.Stored }

// usesFirst reports whether the run starts from LedgerConfig.InitialStates.
func (l *Ledger) usesFirst() bool {
	return len(l.cfg.InitialStates) > 0 && (!l.hadStates() || l.cfg.DiscardStates || l.head.Unfinished == beginning)
}

// read reads the states, and checks states and offsets.
func (l *Ledger) read(ctx context.Context) error {
	l.ends = nil
	if l.cfg.Changelog != "" {
		if err := l.restore(ctx); err != nil {
			return err
		}
	}
	if l.cfg.DiscardStates {
		return nil
	}
	if err := l.checkTopics(ctx); err != nil {
		return err
	}
	if l.cfg.Changelog != "" {
		return l.checkStates(ctx)
	}
	return nil
}

// startFrom makes the run start from states, by key. With a changelog, the first commit stores all of them, so that a
// restart also has the states of keys without new records.
func (l *Ledger) startFrom(states map[string][]byte) {
	if l.owner != nil {
		l.initialStates = maps.Clone(states)
		for key := range l.restored.All() {
			if _, ok := states[key]; !ok {
				l.initialStates[key] = nil // of an earlier run with other states
			}
		}
	}
	l.restored = lastValues{}
	for key, state := range states {
		l.restored.put(key, lastValue{bytes: state})
	}
	l.cfg.Log.Info("keys start from the given states", "keys", len(states))
}

// openChangelog creates the changelog if it does not exist. It returns the maximum batch size of the topic in bytes.
func (l *Ledger) openChangelog(ctx context.Context) (batch int, err error) {
	topic := l.cfg.Changelog
	_, err = l.cfg.Client.describe(ctx, []string{topic})
	if errors.As(err, new(*unknownTopicsError)) {
		if !l.cfg.DiscardStates {
			if err := l.checkChangelog(false); err != nil {
				return 0, err
			}
		}
		var created bool
		created, err = l.cfg.Client.Create(ctx, topic, 0, map[string]string{cleanupPolicy: "compact", largestBatch: fmt.Sprint(changelogBytes)})
		if created {
			l.cfg.Log.Info("the changelog was created", "topic", topic)
		}
	}
	if err != nil {
		return 0, err
	}
	return l.largestBatch(ctx)
}

// Settings of a changelog's topic.
const cleanupPolicy, largestBatch = "cleanup.policy", "max.message.bytes"

// largestBatch returns the maximum batch size of the changelog in bytes.
func (l *Ledger) largestBatch(ctx context.Context) (batch int, err error) {
	config, err := l.cfg.Client.config(ctx, l.cfg.Changelog, cleanupPolicy, largestBatch)
	if err != nil {
		return 0, err
	}
	if policy := config[cleanupPolicy]; policy != "compact" {
		return 0, fmt.Errorf("the changelog %s has cleanup.policy %q: states would be lost; set it to compact", l.cfg.Changelog, policy)
	}
	if batch, err = strconv.Atoi(config[largestBatch]); err != nil {
		batch = batchBytes // the broker does not report the setting
	}
	return min(max(batch, minBatch), changelogBytes), nil
}

// restore reads the changelog.
func (l *Ledger) restore(ctx context.Context) error {
	topic, start := l.cfg.Changelog, time.Now()
	s, err := readStored(ctx, l.cfg.Client, topic, l.cfg.Unseal, l.cfg.Log)
	if err != nil {
		return err
	}
	l.restored, l.damaged, l.keys = s.states, nil, s.states.Len()
	l.head, l.partitions, l.parts = s.head, s.partitions, s.parts
	if l.cfg.DiscardStates {
		l.oldRecords = s.recordPositions()
		return nil
	}
	l.restoredValues = s.ownValues[outputKeyPrefix]
	for id := range l.restoredValues {
		l.storedIDs[id] = true
	}
	for log, value := range s.ownValues[paceKey] {
		var p pace
		err := json.Unmarshal(value, &p)
		position, ok := parsePosition(log, 0)
		if err == nil && !ok {
			err = errors.New("this is not a partition")
		}
		if err != nil {
			return &ResumeError{fmt.Errorf("the changelog %s: the pace of %s cannot be read: %w", topic, log, err)}
		}
		l.processed[log] = partitionProgress{Position: position, pace: p}
	}
	l.stepper.repeat = nil
	steps := s.ownValues[stepKey]
	for _, id := range slices.Sorted(maps.Keys(steps)) {
		m := pendingStep{id: id}
		if err := json.Unmarshal(steps[id], &m); err != nil {
			return &ResumeError{fmt.Errorf("the changelog %s: a step of the watermark cannot be read: %w", topic, err)}
		}
		l.stepper.repeat = append(l.stepper.repeat, m)
	}
	if s.states.Len() > 0 || s.headAt.bytes != nil || len(s.marks) > 0 {
		if err := s.check(topic); err != nil {
			return &ResumeError{err}
		}
	}
	l.cfg.Log.Info("states were restored", "topic", topic, "keys", l.keys, "took", time.Since(start).Round(time.Millisecond).String())
	return nil
}

// checkStates opens and checks the restored states.
func (l *Ledger) checkStates(ctx context.Context) error {
	if err := l.checkChangelog(true); err != nil {
		return err
	}
	if l.head.ID != "" {
		if err := cmp.Or(l.refuseUnfinished(), l.refuseUse()); err != nil {
			return err
		}
	}
	if len(l.opening) > 0 && !l.hadStates() {
		l.cfg.Log.Info("the previous run stored no states: keys start without states at the group's offsets", "group", l.cfg.Group)
	}
	if l.cfg.Open == nil || l.usesFirst() {
		return nil
	}
	var opened lastValues
	l.initialStates, l.damaged = map[string][]byte{}, map[string]error{}
	included, err := l.cfg.Open(func(yield func(*StoredState) bool) {
		for key, b := range l.restored.Drain() {
			v := decodeLastValue(b)
			s := StoredState{Position: v.position(l.cfg.Changelog), Key: key, Bytes: v.bytes}
			more := yield(&s)
			switch v.bytes = s.Bytes; {
			case s.Err != nil:
				l.damaged[key] = s.Err
			case !s.Claimed:
				opened.put(key, v)
			}
			if s.Replaced {
				l.initialStates[key] = bytes.Clone(s.Bytes)
			}
			if !more {
				return
			}
		}
	}, l.restored.Len(), l.restored.Live())
	if err != nil {
		return err
	}
	for key, b := range l.cfg.ReplayedStates {
		l.initialStates[key] = b
		opened.put(key, lastValue{bytes: b})
	}
	l.restored = opened
	return l.checkIncluded(ctx, included)
}

// claimChangelog writes the head of the changelog, which names this run as the owner. With DiscardStates it also
// deletes the states. usesFirst is the result of l.usesFirst.
func (l *Ledger) claimChangelog(ctx context.Context, usesFirst bool) error {
	prevID := l.head.ID
	if err := l.newHead(ctx); err != nil {
		return err
	}
	next, discards := "", len(l.oldRecords) > 0
	if usesFirst {
		next = beginning
	}
	if l.head.Unfinished = next; discards {
		l.head.Unfinished = discarding
	}
	err := l.commitOwned(ctx, func(e *commitEntries) {
		for p := range len(l.head.Marks) {
			if l.head.ID == prevID {
				break
			}
			e.wrote[int32(p)] = true
			e.put(entry{partition: int32(p), key: []byte(bottomKey), value: []byte{}})
		}
	}, nil)
	if err != nil || !discards {
		return err
	}
	if err := l.discard(ctx, next); err != nil {
		return err
	}
	l.cfg.Log.Warn("--begin-anew: discarded the states of the changelog", "topic", l.cfg.Changelog, "keys", l.keys)
	l.restored = lastValues{}
	clear(l.parts)
	return nil
}

// discard deletes the old records, in transactions of bounded size. The last transaction sets head.Unfinished to next.
func (l *Ledger) discard(ctx context.Context, next string) error {
	for len(l.oldRecords) > 0 {
		n, size := 0, 0
		for n < len(l.oldRecords) && size < portionBytes {
			size += len(l.oldRecords[n].key) + recordOverhead
			n++
		}
		portion := l.oldRecords[:n]
		if l.oldRecords = l.oldRecords[n:]; len(l.oldRecords) == 0 {
			l.head.Unfinished = next
		}
		err := l.commitOwned(ctx, func(e *commitEntries) {
			for _, position := range portion {
				e.wrote[position.partition] = true
				e.put(entry{partition: position.partition, key: []byte(position.key)})
			}
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// storeInPortions stores states in several transactions of bounded size.
func (l *Ledger) storeInPortions(ctx context.Context, states map[string][]byte) error {
	portion, size := map[string][]byte{}, 0
	for key, state := range states {
		portion[key] = state
		if size += len(key) + len(state) + recordOverhead; size >= portionBytes {
			if err := l.commitOwned(ctx, l.entries(portion), nil); err != nil {
				return err
			}
			clear(portion)
			size = 0
		}
	}
	if len(portion) == 0 {
		return nil
	}
	return l.commitOwned(ctx, l.entries(portion), nil)
}

// Restore returns the state that a key had when the ledger was opened, or nil. The error is StoredState.Err. A second
// call for the key returns nil.
func (l *Ledger) Restore(key string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.damaged[key]; err != nil {
		delete(l.damaged, key)
		return nil, err
	}
	v, ok := l.restored.get(key)
	if !ok {
		return nil, nil
	}
	b := bytes.Clone(v.bytes)
	l.restored.Put(key, nil)
	return b, nil
}

// TakeStates passes the states that Restore would return to take, except unreadable ones. A state is valid during the
// call. The ledger keeps the states for which take returns false.
func (l *Ledger) TakeStates(take func(key string, state []byte) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var remaining lastValues
	for key, b := range l.restored.Drain() {
		if v := decodeLastValue(b); !take(key, v.bytes) {
			remaining.put(key, v)
		}
	}
	l.restored = remaining
}

// HasChangelog reports whether there is a changelog, which StoreValue needs.
func (l *Ledger) HasChangelog() bool { return l.owner != nil }

// StoreValue stores value under id in the changelog with the next commit. A nil value deletes the stored one. Without
// a changelog, StoreValue does nothing.
func (l *Ledger) StoreValue(id string, value []byte) {
	if l.owner == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, pending := l.pendingValues[id]; value == nil && pending && !l.storedIDs[id] {
		delete(l.pendingValues, id) // never stored
		return
	}
	l.pendingValues[id] = value
}

// StoredValues returns the values of StoreValue, by id, that the changelog had when the run started.
func (l *Ledger) StoredValues() map[string][]byte { return l.restoredValues }

// entries returns a function that puts the entries of states, by key; nil deletes a state. It makes one entry at a
// time, because all of them would double the memory.
func (l *Ledger) entries(states map[string][]byte) func(*commitEntries) {
	return func(e *commitEntries) {
		for key, state := range states {
			if state != nil && l.cfg.Seal != nil {
				state = l.cfg.Seal(key, state)
			}
			e.putState(key, state)
		}
	}
}
