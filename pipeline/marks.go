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

// maxMarksLogged is the maximum number of rejected marks that are logged one by one.
const maxMarksLogged = 10

// maxMarks is the maximum number of alarms that a run remembers for marks, and of marks that it keeps.
const maxMarks = 1000

// A markRegistry reads users' marks of alarms and applies them to a run.
type markRegistry struct {
	run    *run
	source *config.Sink // where marks are read; nil: marks are no longer read
	shared transforms.FalseMarks

	mu         sync.Mutex
	alarms     []*markable            // the last maxMarks, oldest first
	byID       map[string][]*markable // the same alarms
	changed    bool                   // alarms changed since the last commit
	unobserved []appliedMark          // marks that the observer has not seen

	info    fs.FileInfo // of the last file read; nil for none
	read    markState   // marks read so far, applied with the next commit
	refused int         // number of rejected marks
}

// A markable is an alarm that can be marked.
type markable struct {
	Key, ID, Kind string
	Time          time.Time
	Size          float64  // largest size of its episode, as Alert.Size; 0 for none
	Output        int      `json:",omitempty"`
	Incident      string   `json:",omitempty"`
	Reports       []string `json:",omitempty"` // IDs of the reports that its episode is worse
}

// A markState is the part of a run's states about marks.
type markState struct {
	Read  map[string]markPosition // end of the part that was read, by file or partition
	Marks []appliedMark           // last marks that match an alarm, in reading order
}

type markPosition struct {
	Offset int64  `json:"At"` // bytes of a file, or next offset of a partition
	Line   int64  `json:",omitempty"`
	Sum    uint32 `json:",omitempty"` // CRC-32 of these bytes
}

// An appliedMark is a mark with the alarm that it belongs to.
type appliedMark struct {
	records.Mark
	AlarmID string  `json:"Of"`
	Size    float64 `json:",omitempty"`
	Output  int     `json:",omitempty"`
}

// openMarks applies the marks in the stored states, and reads new marks. If the config no longer reads marks, it
// removes the stored ones. It does nothing for a run that learns from the past.
func (r *run) openMarks(ctx context.Context, g *Graph) error {
	if r.history != nil {
		return nil
	}
	m := &markRegistry{run: r, source: g.marks, byID: map[string][]*markable{}, read: markState{Read: map[string]markPosition{}}}
	stored, err := m.restore()
	if err != nil {
		r.log.Warn("cannot read the stored marks: reading all marks again", "reason", err.Error())
	}
	switch {
	case g.marks == nil && stored:
		m.apply()
		m.read.Marks = nil
		r.account.SetRuntimeSetting(statestore.AlarmsKey, nil, func() {})
		r.account.SetRuntimeSetting(statestore.MarksKey, nil, m.applyOnCommit())
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

// restore reads the stored alarms and marks. stored is false if there are none.
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

// state returns the alarms in JSON, as stored under AlarmsKey. changed is false if they have not changed since the last
// call.
func (m *markRegistry) state() (value []byte, changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.changed {
		return nil, false
	}
	m.changed = false
	return []byte(jsontext.Of(m.alarms)), true
}

// recordAlert records an alarm of a key, or a later report of its episode: that it is worse, or its end. It ignores
// beliefs.
func (m *markRegistry) recordAlert(key string, t keyed.AlertEvent) {
	if m == nil || t.Source != keyed.SourceAlarm {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	worse := t.IsWorse()
	if worse || t.BackToUsual() {
		m.report(key, t, worse)
	}
	if worse || t.Kind == keyed.RecoveredAlarm || m.find(key, t.ID) != nil { // else the alarm is repeated
		return
	}
	size := finite(t.Size)
	if math.IsNaN(size) {
		size = 0
	}
	m.changed = true
	m.add(&markable{Key: strings.Clone(key), ID: strings.Clone(t.ID), Kind: t.Kind, Time: t.Time, Size: size, Output: t.Output})
}

// finite limits a size to finite numbers, because JSON has no infinity.
func finite(size float64) float64 { return max(-math.MaxFloat64, min(size, math.MaxFloat64)) }

// report enlarges the size of an alarm to that of a later report of its episode. A mark of a report that the episode is
// worse marks the alarm.
func (m *markRegistry) report(key string, t keyed.AlertEvent, worse bool) {
	onset := t.ID
	if worse {
		onset = t.Episode.ID
	}
	a := m.find(key, onset)
	if a == nil {
		return
	}
	if worse && !slices.Contains(a.Reports, t.ID) {
		a.Reports, m.changed = append(a.Reports, strings.Clone(t.ID)), true
	}
	if a.Output == t.Output && a.Size*t.Size > 0 && math.Abs(t.Size) > math.Abs(a.Size) {
		a.Size, m.changed = finite(t.Size), true
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

// assign records the incident of an alarm.
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

// follow polls for marks in the background until end is called.
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
				m.run.log.Warn("cannot read marks: keeping the marks read before", "reason", err.Error())
			}
			failed = err != nil
		}
	})
	return func() {
		cancel()
		reading.Wait()
	}
}

// poll reads new marks. They take effect with the next commit.
func (m *markRegistry) poll(ctx context.Context) (err error) {
	prev, refused := maps.Clone(m.read.Read), max(m.refused, maxMarksLogged)
	if f := m.source.File; f != nil {
		err = m.readFile(f.Path)
	} else {
		err = m.readTopic(ctx, m.source.Kafka)
	}
	if unlogged := m.refused - refused; unlogged > 0 {
		m.run.log.Warn("more marks rejected, written to the dead letter", "marks", unlogged)
	}
	if !maps.Equal(prev, m.read.Read) {
		m.run.account.SetRuntimeSetting(statestore.MarksKey, []byte(jsontext.Of(m.read)), m.applyOnCommit())
	}
	return err
}

// applyOnCommit returns a function that applies the marks read so far to the filters, and reports them to the observer.
func (m *markRegistry) applyOnCommit() func() {
	falseMarks, marks := m.falseMarks(), m.String()
	return func() {
		m.shared.Store(&falseMarks)
		m.observe()
		m.run.log.Info("marks applied", "marks", marks)
	}
}

// apply makes the filters use the marks read so far, at the start of a run.
func (m *markRegistry) apply() {
	falseMarks := m.falseMarks()
	m.shared.Store(&falseMarks)
	account.WithValue(m.run.account, "", &m.shared)
}

// observe reports marks that the observer has not seen.
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

// falseMarks returns the false marks that have a size, by key.
func (m *markRegistry) falseMarks() map[string][]keyed.FalseMark {
	byKey := map[string][]keyed.FalseMark{}
	for _, a := range m.read.Marks {
		if a.Mark.Mark == records.MarkedFalse && a.Size != 0 {
			byKey[*a.Key] = append(byKey[*a.Key], keyed.FalseMark{From: a.Time, Size: a.Size, Output: a.Output})
		}
	}
	return byKey
}

// maxMarkBytes is the maximum length of a mark in bytes.
const maxMarkBytes = 64 << 10

// readFile reads the lines appended to a file since the last call. If the part read before has changed, it reads the
// whole file again.
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
	if n, err := io.CopyN(sum, f, position.Offset); err != nil && err != io.EOF {
		return err
	} else if n < position.Offset || sum.Sum32() != position.Sum {
		position = markPosition{}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	in := bufio.NewReaderSize(f, maxMarkBytes)
	for {
		line, err := in.ReadSlice('\n')
		next := markPosition{Offset: position.Offset, Line: position.Line + 1, Sum: position.Sum}
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
		if next.add(line); position.Offset == 0 {
			text = inputfile.WithoutMark(text)
		}
		position = next
		if err := m.accept(records.SourcePlace{ID: fmt.Sprintf("%s:%d", path, position.Line)}, text); err != nil {
			return err
		}
		m.read.Read[path] = position
	}
}

// add advances the position past b.
func (p *markPosition) add(b []byte) {
	p.Offset += int64(len(b))
	p.Sum = crc32.Update(p.Sum, crc32.IEEETable, b)
}

// readTopic reads the records of a topic from the stored offsets on.
func (m *markRegistry) readTopic(ctx context.Context, sink *kafkaio.Sink) (err error) {
	ends := map[string]int64{}
	for p, position := range m.read.Read {
		ends[p] = position.Offset
	}
	failed := m.run.clients.client(sink.Cluster).ReadFrom(ctx, sink.Topic, ends, m.run.log, func(batch []kafkaio.Record) {
		for _, r := range batch {
			position := records.SourcePlace{ID: r.Position.String(), Log: r.Log(), Seq: r.Offset}
			if err == nil {
				if err = m.accept(position, r.Value); err == nil {
					m.read.Read[r.Log()] = markPosition{Offset: r.Offset + 1}
				}
			}
		}
	})
	return errors.Join(err, failed)
}

// accept parses a mark and records it. It writes an invalid mark to the dead letter.
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
		m.run.log.Warn("mark rejected, written to the dead letter", "place", place.ID, "reason", err.Error())
	}
	raw := string(line[:min(len(line), connectors.MaxRaw)])
	return m.run.writeDead(records.AppendReject(connectors.Chunk(nil).Begin(nil, place.ID), place, raw, "the mark "+err.Error()))
}

// addMark adds a mark to the alarm or to the alarms of the incident that it names. A later mark replaces an earlier
// one.
func (m *markRegistry) addMark(mark records.Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var matches []*markable
	keys := map[string]bool{}
	for _, a := range m.alarms {
		for _, id := range append([]string{a.ID}, a.Reports...) {
			if !mark.Matches(a.Key, id, a.Incident) {
				continue
			}
			if id == mark.ID {
				keys[a.Key] = true
			}
			matches = append(matches, a)
			break
		}
	}
	if len(matches) == 0 {
		return fmt.Errorf("is for an unknown alarm: none of the last %d alarms has the id %s%s", maxMarks, message.Quote(mark.ID), ofKey(mark.Key))
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

// String returns the number of marks, in total and for each value. It is empty without marks.
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
	_, err = f.Write(line) // one call: a concurrent reader sees the whole line or none of it
	return errors.Join(err, f.Close())
}
