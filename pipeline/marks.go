package pipeline

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
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

// maxMarks is the maximum number of marks that a run keeps.
const maxMarks = 1000

// A markRegistry reads users' marks of alarms and applies them to a run.
type markRegistry struct {
	run    *run
	source *config.Sink // where marks are read; nil: marks are no longer read
	shared transforms.FalseMarks

	mu         sync.Mutex
	unobserved []records.Mark // marks that the observer has not seen

	info    fs.FileInfo // of the last file read; nil for none
	read    markState   // marks read so far, applied with the next commit
	refused int         // number of rejected marks
}

// A markState is the part of a run's states about marks.
type markState struct {
	Read  map[string]markPosition // end of the part that was read, by file or partition
	Marks []appliedMark           // the last maxMarks, in reading order
}

type markPosition struct {
	Offset int64  `json:"At"` // bytes of a file, or next offset of a partition
	Line   int64  `json:",omitempty"`
	Sum    uint32 `json:",omitempty"` // CRC-32 of these bytes
}

// An appliedMark is a stored mark.
type appliedMark struct {
	records.Mark
	AlarmID string `json:"Of,omitempty"` // the alarm's id in marks of earlier versions, whose ID may be another
}

// openMarks applies the marks in the stored states, and reads new marks. If the config no longer reads marks, it
// removes the stored ones. It does nothing for a run that learns from the past.
func (r *run) openMarks(ctx context.Context, g *Graph) error {
	if r.history != nil {
		return nil
	}
	m := &markRegistry{run: r, source: g.marks}
	stored, err := m.restore()
	if err != nil {
		r.log.Warn("cannot read the stored marks: reading all marks again", "reason", err.Error())
	}
	if former, _ := r.account.Restore(statestore.FormerAlarmsKey); former != nil {
		r.account.SetRuntimeSetting(statestore.FormerAlarmsKey, nil, func() {})
	}
	switch {
	case g.marks == nil && stored:
		m.apply()
		m.read.Marks = nil
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
	for _, a := range m.read.Marks {
		m.unobserved = append(m.unobserved, a.Mark)
	}
	m.observe()
	return m.poll(ctx)
}

// restore reads the stored marks. stored is false if there are none.
func (m *markRegistry) restore() (stored bool, err error) {
	b, err := m.run.account.Restore(statestore.MarksKey)
	if err == nil && b != nil {
		stored, err = true, json.Unmarshal(b, &m.read)
	}
	for i := range m.read.Marks {
		a := &m.read.Marks[i]
		a.ID = cmp.Or(a.AlarmID, a.ID)
	}
	if m.read.Read == nil {
		m.read.Read = map[string]markPosition{}
	}
	return stored, err
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
	for _, mark := range pending {
		marked(mark)
	}
}

// falseMarks returns the false marks that have a size, by key. Marks of earlier versions act from their time on.
func (m *markRegistry) falseMarks() map[string][]keyed.FalseMark {
	byKey := map[string][]keyed.FalseMark{}
	for _, a := range m.read.Marks {
		if a.Mark.Mark != records.MarkedFalse || a.Size == 0 {
			continue
		}
		f := keyed.FalseMark{From: a.Time, Size: a.SignedSize(), Output: keyed.AnyOutput}
		if a.AlarmID != "" {
			f.Since, f.Output = a.Time, 0
		}
		if a.Output != nil {
			f.Output = *a.Output
		}
		byKey[*a.Key] = append(byKey[*a.Key], f)
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

// addMark adds a mark. It replaces an earlier mark of the alarm.
func (m *markRegistry) addMark(mark records.Mark) error {
	if !mark.Named() {
		command := fmt.Sprintf("hafvf mark ALERTS %s %s", message.ShellWord(mark.ID), mark.Mark)
		if mark.Key != nil {
			command += " --key " + message.ShellWord(*mark.Key)
		}
		return fmt.Errorf("is of an earlier version, without key and start of its alarm: mark the alarm again with %s, where ALERTS is the file of its alert", command)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sameAlarm := func(a appliedMark) bool { return a.ID == mark.ID && *a.Key == *mark.Key }
	if i := slices.IndexFunc(m.read.Marks, sameAlarm); i >= 0 {
		if prev := m.read.Marks[i]; prev.Mark.Mark == mark.Mark && prev.SignedSize() == mark.SignedSize() && prev.Time.Equal(mark.Time) {
			return nil
		}
		m.read.Marks = slices.Delete(m.read.Marks, i, i+1)
	}
	m.read.Marks, m.unobserved = append(m.read.Marks, appliedMark{Mark: mark}), append(m.unobserved, mark)
	if excess := len(m.read.Marks) - maxMarks; excess > 0 {
		m.read.Marks = slices.Delete(m.read.Marks, 0, excess)
	}
	return nil
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

// SendMarks appends marks to a file, or writes them to a topic.
func SendMarks(ctx context.Context, sink *config.Sink, marks []records.Mark, log *slog.Logger) error {
	var chunk connectors.Chunk
	var lines []byte
	for _, m := range marks {
		chunk = append(chunk.Begin([]byte(m.ID), m.ID), m.Line()...)
		lines = append(lines, m.Line()...)
	}
	if sink.Kafka != nil {
		return sink.Kafka.WriteChunk(ctx, chunk, log)
	}
	f, err := os.OpenFile(sink.File.Path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	last := make([]byte, 1)
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			lines = append([]byte{'\n'}, lines...)
		}
	}
	_, err = f.Write(lines) // one call: a concurrent reader sees whole lines or none of them
	return errors.Join(err, f.Close())
}
