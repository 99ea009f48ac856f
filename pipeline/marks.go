package pipeline

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/inputfile"
	"hafvf/internal/jsontext"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

// loggedMarks is how many marks of no use are logged each by itself.
const maxMarksLogged = 10

// mostMarks is how many alarms a run knows for marks, and how many marks it keeps.
const maxMarks = 1000

// A markRegistry has a run work by what users say of its alarms.
type markRegistry struct {
	run    *run
	source *config.Sink // which is read; nil: no more
	shared transforms.FalseMarks

	mu         sync.Mutex
	alarms     []*markable            // the last ones, oldest first
	byID       map[string][]*markable // these
	changed    bool                   // the alarms, since they were committed
	unobserved []appliedMark          // marks, to the observer

	info    fs.FileInfo // of the file that was read; nil for none
	read    markState   // what was read, to be in force with the next commit
	refused int         // marks of no use
}

// A markable is an alarm of which there may be a mark.
type markable struct {
	Key, ID, Kind string
	Time          time.Time
	Size          float64 // the largest of its event, as Alert.Size; 0 if it has none
	Output        int     `json:",omitempty"`
	Incident      string  `json:",omitempty"`
	Over          bool    `json:",omitempty"` // so is its event
}

// A markState is what is known of marks, as the states of a run have it.
type markState struct {
	Read  map[string]markPosition // by file or partition, up to where it was read
	Marks []appliedMark           // the last ones that are of an alarm, in the order in which they were read
}

type markPosition struct {
	At   int64  // bytes of a file, offset of a partition
	Line int64  `json:",omitempty"`
	Sum  uint32 `json:",omitempty"` // of these bytes
}

// An appliedMark is a mark with the alarm that it is of.
type appliedMark struct {
	records.Mark
	AlarmID string  `json:"Of"` // the ID of the alarm
	Size    float64 `json:",omitempty"`
	Output  int     `json:",omitempty"`
}

// openMarks has a run begin with the marks that its states have, and with what has been said since.
func (r *run) openMarks(ctx context.Context, g *Graph) error {
	if r.history != nil {
		return nil
	}
	m := &markRegistry{run: r, source: g.marks, byID: map[string][]*markable{}, read: markState{Read: map[string]markPosition{}}}
	stored, err := m.restore()
	if err != nil {
		r.log.Warn("the marks that were in force cannot be read: they are read again", "reason", err.Error())
	}
	switch {
	case g.marks == nil && stored:
		m.apply()
		m.read.Marks = nil
		r.account.Instruct(statestore.AlarmsKey, nil, func() {})
		r.account.Instruct(statestore.MarksKey, nil, m.applyOnCommit())
		return nil
	case g.marks == nil:
		return nil
	case g.marks.Kafka != nil:
		if _, err := r.clients.client(g.marks.Kafka.Cluster).Create(ctx, g.marks.Kafka.Topic, 1, nil); err != nil {
			return err
		}
	}
	r.marks = m
	m.apply()
	m.unobserved = slices.Clone(m.read.Marks)
	m.observe()
	r.account.CommitAlong(statestore.AlarmsKey, m.state)
	return m.poll(ctx)
}

// restore reads what the states have.
func (m *markRegistry) restore() (stored bool, err error) {
	var alarms []*markable
	for key, dst := range map[string]any{statestore.AlarmsKey: &alarms, statestore.MarksKey: &m.read} {
		b, failed := m.run.account.Restore(key)
		if failed == nil && b != nil {
			failed = json.Unmarshal(b, dst)
			stored = true
		}
		err = errors.Join(err, failed)
	}
	for _, a := range alarms {
		m.add(a)
	}
	if m.read.Read == nil {
		m.read.Read = map[string]markPosition{}
	}
	return stored, err
}

// state is what AlarmsKey has.
func (m *markRegistry) state() (value []byte, changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.changed {
		return nil, false
	}
	m.changed = false
	return []byte(jsontext.Of(m.alarms)), true
}

// note notes an alarm of a key, or its end. Beliefs are no alarms.
func (m *markRegistry) recordAlert(key string, t keyed.AlertEvent) {
	if m == nil || t.Basis != keyed.AlarmBasis {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.Kind == keyed.RecoveredAlarm {
		if t.BackToUsual() {
			m.updateSize(key, t.Alert, true)
		}
		return
	}
	size := finite(t.Size)
	if math.IsNaN(size) {
		size = 0
	}
	m.changed = true
	if m.updateSize(key, t.Alert, false); m.find(key, t.ID) != nil {
		return // it comes again
	}
	m.add(&markable{Key: strings.Clone(key), ID: strings.Clone(t.ID), Kind: t.Kind, Time: t.Time, Size: size, Output: t.Output, Over: size == 0})
}

// finite is a size as JSON can have it, which has no infinity.
func finite(size float64) float64 { return max(-math.MaxFloat64, min(size, math.MaxFloat64)) }

// grow notes a size of the event of a key that lasts, and its end. An alarm without a size has no event.
func (m *markRegistry) updateSize(key string, alert *keyed.Alert, over bool) {
	for _, a := range m.alarms {
		if a.Over || a.Key != key {
			continue
		}
		m.changed, a.Over = true, over
		if a.Output == alert.Output && a.Size*alert.Size > 0 && math.Abs(alert.Size) > math.Abs(a.Size) {
			a.Size = finite(alert.Size)
		}
	}
}

func (m *markRegistry) find(key, id string) *markable {
	for _, a := range m.byID[id] {
		if a.Key == key {
			return a
		}
	}
	return nil
}

func (m *markRegistry) add(a *markable) {
	if len(m.alarms) == maxMarks {
		oldest := m.alarms[0]
		m.alarms = m.alarms[1:]
		if m.byID[oldest.ID] = slices.DeleteFunc(m.byID[oldest.ID], func(o *markable) bool { return o == oldest }); len(m.byID[oldest.ID]) == 0 {
			delete(m.byID, oldest.ID)
		}
	}
	m.alarms = append(m.alarms, a)
	m.byID[a.ID] = append(m.byID[a.ID], a)
}

// assign notes the incident of an alarm.
func (m *markRegistry) assign(assignment incidents.Assignment) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.find(assignment.Key, assignment.ID); a != nil && a.Incident != assignment.Incident {
		a.Incident, m.changed = strings.Clone(assignment.Incident), true
	}
}

// follow reads on while a run goes on, until the returned function is called.
func (m *markRegistry) follow(ctx context.Context) (end func()) {
	if m == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		failed := false
		for {
			select {
			case <-time.After(quietPoll):
			case <-ctx.Done():
				return
			}
			err := m.poll(ctx)
			if err != nil && !failed && ctx.Err() == nil {
				m.run.log.Warn("marks cannot be read: those that were read hold", "reason", err.Error())
			}
			failed = err != nil
		}
	})
	return func() {
		cancel()
		reading.Wait()
	}
}

// poll reads what has come, and has it take hold with the next commit.
func (m *markRegistry) poll(ctx context.Context) (err error) {
	prev, refused := maps.Clone(m.read.Read), max(m.refused, maxMarksLogged)
	if f := m.source.File; f != nil {
		err = m.readFile(f.Path)
	} else {
		err = m.readTopic(ctx, m.source.Kafka)
	}
	if unlogged := m.refused - refused; unlogged > 0 {
		m.run.log.Warn("more marks are of no use: they are in the dead letter", "marks", unlogged)
	}
	if !maps.Equal(prev, m.read.Read) {
		m.run.account.Instruct(statestore.MarksKey, []byte(jsontext.Of(m.read)), m.applyOnCommit())
	}
	return err
}

// takesHold returns the function that has the filters work by what was read up to now.
func (m *markRegistry) applyOnCommit() func() {
	falseMarks, marks := m.falseMarks(), m.String()
	return func() {
		m.shared.Store(&falseMarks)
		m.observe()
		m.run.log.Info("marks are in force", "marks", marks)
	}
}

// apply has the filters work by what was read, at the start.
func (m *markRegistry) apply() {
	falseMarks := m.falseMarks()
	m.shared.Store(&falseMarks)
	account.WithValue(m.run.account, "", &m.shared)
}

// observe tells the observer of the run of marks that it does not know.
func (m *markRegistry) observe() {
	m.mu.Lock()
	pending := m.unobserved
	m.unobserved = nil
	m.mu.Unlock()
	marked := m.run.observer().Marked
	for _, a := range pending {
		a.ID = a.AlarmID
		marked(a.Mark)
	}
}

// inForce are the false marks of keys.
func (m *markRegistry) falseMarks() map[string][]keyed.FalseMark {
	byKey := map[string][]keyed.FalseMark{}
	for _, a := range m.read.Marks {
		if a.Mark.Mark == records.MarkedFalse && a.Size != 0 {
			byKey[*a.Key] = append(byKey[*a.Key], keyed.FalseMark{From: a.Time, Size: a.Size, Output: a.Output})
		}
	}
	return byKey
}

// longestMark is the maximum length of a mark in bytes.
const maxMarkBytes = 64 << 10

// readFile reads the lines that were appended to a file, in pieces. If the file no longer begins with what was read of it,
// readFile reads all of it.
func (m *markRegistry) readFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || m.info != nil && info.Size() == m.info.Size() && info.ModTime().Equal(m.info.ModTime()) && os.SameFile(info, m.info) {
		return err
	}
	f, err := inputfile.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	position := m.read.Read[path]
	sum := crc32.NewIEEE()
	if n, err := io.CopyN(sum, f, position.At); err != nil && err != io.EOF {
		return err
	} else if n < position.At || sum.Sum32() != position.Sum {
		position = markPosition{}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	in := bufio.NewReaderSize(f, maxMarkBytes)
	for {
		line, err := in.ReadSlice('\n')
		next := markPosition{At: position.At, Line: position.Line + 1, Sum: position.Sum}
		text := slices.Clone(line[:min(len(line), maxMarkBytes)])
		for ; err == bufio.ErrBufferFull; line, err = in.ReadSlice('\n') {
			next.add(line)
		}
		if err == io.EOF {
			m.info = info
			return nil
		}
		if err != nil {
			return err
		}
		if next.add(line); position.At == 0 {
			text = inputfile.WithoutMark(text)
		}
		position = next
		if err := m.accept(records.SourcePlace{ID: fmt.Sprintf("%s:%d", path, position.Line)}, text); err != nil {
			return err
		}
		m.read.Read[path] = position
	}
}

// add moves the position past some bytes of a file.
func (p *markPosition) add(b []byte) {
	p.At += int64(len(b))
	p.Sum = crc32.Update(p.Sum, crc32.IEEETable, b)
}

// readTopic reads the records of a topic that were not read yet.
func (m *markRegistry) readTopic(ctx context.Context, sink *kafkaio.Sink) (err error) {
	ends := map[string]int64{}
	for p, position := range m.read.Read {
		ends[p] = position.At
	}
	failed := m.run.clients.client(sink.Cluster).ReadOn(ctx, sink.Topic, ends, m.run.log, func(batch []kafkaio.Record) {
		for _, r := range batch {
			position := records.SourcePlace{ID: r.Position.String(), Log: r.Log(), Seq: r.Offset}
			if err == nil {
				if err = m.accept(position, r.Value); err == nil {
					m.read.Read[r.Log()] = markPosition{At: r.Offset + 1}
				}
			}
		}
	})
	return errors.Join(err, failed)
}

// take takes a mark, or puts it into the dead letter.
func (m *markRegistry) accept(place records.SourcePlace, line []byte) error {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	var mark records.Mark
	err := fmt.Errorf("is longer than %d kB", maxMarkBytes>>10)
	if len(line) < maxMarkBytes {
		if mark, err = records.ParseMark(line); err == nil {
			err = m.addMark(mark)
		}
	}
	if err == nil {
		return nil
	}
	if m.refused++; m.refused <= maxMarksLogged {
		m.run.log.Warn("a mark is of no use: it is in the dead letter", "place", place.ID, "reason", err.Error())
	}
	raw := string(line[:min(len(line), connectors.MaxRaw)])
	return m.run.writeDead(records.AppendReject(connectors.Chunk(nil).Begin(nil, place.ID), place, raw, "the mark "+err.Error()))
}

// mark notes a mark of one alarm, or of those of an incident.
func (m *markRegistry) addMark(mark records.Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var matches []*markable
	keys := map[string]bool{}
	for _, a := range m.alarms {
		if mark.Of(a.Key, a.ID, a.Incident) {
			matches = append(matches, a)
			if a.ID == mark.ID {
				keys[a.Key] = true
			}
		}
	}
	if len(matches) == 0 {
		return fmt.Errorf("is of an unknown alarm: none of the last %d has the id %s%s", maxMarks, message.Quote(mark.ID), ofKey(mark.Key))
	}
	if len(keys) > 1 {
		sorted := slices.Sorted(maps.Keys(keys))
		return fmt.Errorf("is ambiguous: alarms of %d keys have the id %s; give key, such as %s", len(sorted), message.Quote(mark.ID), message.Quote(sorted[0]))
	}
	for _, a := range matches {
		applied := appliedMark{Mark: mark, AlarmID: a.ID, Size: a.Size, Output: a.Output}
		applied.Key = &a.Key
		sameAlarm := func(o appliedMark) bool { return o.AlarmID == a.ID && *o.Key == a.Key }
		if i := slices.IndexFunc(m.read.Marks, sameAlarm); i >= 0 {
			if prev := m.read.Marks[i]; prev.ID == applied.ID && prev.Mark.Mark == applied.Mark.Mark && prev.Time.Equal(applied.Time) {
				continue
			}
			m.read.Marks = slices.Delete(m.read.Marks, i, i+1)
		}
		m.read.Marks, m.unobserved = append(m.read.Marks, applied), append(m.unobserved, applied)
	}
	if excess := len(m.read.Marks) - maxMarks; excess > 0 {
		m.read.Marks = slices.Delete(m.read.Marks, 0, excess)
	}
	return nil
}

func ofKey(key *string) string {
	if key == nil {
		return ""
	}
	return " and the key " + message.Quote(*key)
}

// String says how many alarms have a mark, by what it says. It is empty if none has one.
func (m *markRegistry) String() string {
	if m == nil || len(m.read.Marks) == 0 {
		return ""
	}
	n := map[string]int{}
	for _, a := range m.read.Marks {
		n[a.Mark.Mark]++
	}
	var counts []string
	for _, mark := range records.Marks() {
		if n[mark] > 0 {
			counts = append(counts, fmt.Sprint(n[mark], " ", mark))
		}
	}
	return message.Count(len(m.read.Marks), "mark", "marks") + ": " + strings.Join(counts, ", ")
}

// SendMark appends a mark to a file, or writes it to a topic.
func SendMark(ctx context.Context, sink *config.Sink, m records.Mark, log *slog.Logger) error {
	line := m.Line()
	if sink.Kafka != nil {
		return sink.Kafka.WriteChunk(ctx, append(connectors.Chunk(nil).Begin([]byte(m.ID), m.ID), line...), log)
	}
	f, err := os.OpenFile(sink.File.Path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	last := make([]byte, 1)
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	_, err = f.Write(line) // at once: who reads it meanwhile has the line or has it not
	return errors.Join(err, f.Close())
}
