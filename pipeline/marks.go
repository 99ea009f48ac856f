package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
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
	run      *run
	source   *config.Sink // where marks are read; nil: marks are no longer read
	shared   transforms.FalseMarks
	observed []records.Mark // marks that the observer has seen

	info    fs.FileInfo // of the last file read; nil for none
	read    markState   // marks read so far, applied with the next commit
	refused int         // number of rejected marks
}

// A markState is the part of a run's states about marks.
type markState struct {
	Read  map[string]markPosition // end of the part that was read, by file or partition
	Marks []records.Mark          // the last maxMarks, in reading order
}

type markPosition struct {
	Offset int64  `json:"At"` // bytes of a file, or next offset of a partition
	Line   int64  `json:",omitempty"`
	Sum    uint32 `json:",omitempty"` // CRC-32 of these bytes
}

// openMarks applies the marks in the stored states, and reads new marks. If the config no longer reads marks, it
// removes the stored ones. It does nothing for a run that learns from the past.
func (r *run) openMarks(ctx context.Context, g *Graph) error {
	if r.history != nil {
		return nil
	}
	m := &markRegistry{run: r, source: g.marks, read: markState{Read: map[string]markPosition{}}}
	stored, err := r.account.Restore(statestore.MarksKey)
	if err == nil && stored != nil {
		err = json.Unmarshal(stored, &m.read)
	}
	if err != nil {
		r.log.Warn("cannot read the stored marks: reading all marks again", "reason", err.Error())
	}
	if former, _ := r.account.Restore(statestore.FormerAlarmsKey); former != nil {
		r.account.SetRuntimeSetting(statestore.FormerAlarmsKey, nil, func() {})
	}
	if g.marks == nil && stored == nil {
		return nil
	}
	falseMarks := m.falseMarks()
	m.shared.Store(&falseMarks)
	account.WithValue(r.account, "", &m.shared)
	if g.marks == nil {
		m.read.Marks = nil
		r.account.SetRuntimeSetting(statestore.MarksKey, nil, m.applyOnCommit())
		return nil
	}
	if k := g.marks.Kafka; k != nil {
		if _, err := r.clients.client(k.Cluster).Create(ctx, k.Topic, 1, nil); err != nil {
			return err
		}
	}
	r.marks = m
	m.observe(slices.Clone(m.read.Marks))
	return m.poll(ctx)
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
	falseMarks, marks, text := m.falseMarks(), slices.Clone(m.read.Marks), m.String()
	return func() {
		m.shared.Store(&falseMarks)
		m.observe(marks)
		m.run.log.Info("marks applied", "marks", text)
	}
}

// observe reports the marks that the observer has not seen.
func (m *markRegistry) observe(marks []records.Mark) {
	for _, mark := range marks {
		if !slices.Contains(m.observed, mark) {
			m.run.observer().Marked(mark)
		}
	}
	m.observed = marks
}

// falseMarks returns the false marks that have a size, by key. Marks of earlier versions act from their time on.
func (m *markRegistry) falseMarks() map[string][]keyed.FalseMark {
	byKey := map[string][]keyed.FalseMark{}
	for _, a := range m.read.Marks {
		if a.Mark != records.MarkedFalse || a.Size == 0 {
			continue
		}
		f := keyed.FalseMark{From: a.Time, Size: a.Size}
		if a.Start.IsZero() {
			f.Since = a.Time
		}
		byKey[*a.Key] = append(byKey[*a.Key], f)
	}
	return byKey
}

const (
	maxMarkBytes = 64 << 10 // maximum length of a mark
	maxMarksFile = 1 << 30  // maximum length of a file of marks
)

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
	text, _, err := inputfile.Read(path, maxMarksFile)
	if err != nil {
		return err
	}
	position, whole := m.read.Read[path], bytes.LastIndexByte(text, '\n')+1
	if read := int(position.Offset); read > whole || crc32.ChecksumIEEE(text[:read]) != position.Sum {
		position = markPosition{}
	}
	for line := range bytes.Lines(text[position.Offset:whole]) {
		if position.Line++; position.Line == 1 {
			line = inputfile.WithoutMark(line)
		}
		if err := m.accept(records.SourcePlace{ID: fmt.Sprintf("%s:%d", path, position.Line)}, line); err != nil {
			return err
		}
	}
	m.info, m.read.Read[path] = info, markPosition{int64(whole), position.Line, crc32.ChecksumIEEE(text[:whole])}
	return nil
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
	if mark.Key == nil || mark.Start.IsZero() {
		key := ""
		if mark.Key != nil {
			key = " --key " + message.ShellWord(*mark.Key)
		}
		return fmt.Errorf("is of an earlier version, without key and start of its alarm: mark the alarm again with hafvf mark ALERTS %s %s%s, where ALERTS is the file of its alert", message.ShellWord(mark.ID), mark.Mark, key)
	}
	prev := func(a records.Mark) bool { return a.ID == mark.ID && *a.Key == *mark.Key }
	m.read.Marks = append(slices.DeleteFunc(m.read.Marks, prev), mark)
	m.read.Marks = m.read.Marks[max(0, len(m.read.Marks)-maxMarks):]
	return nil
}

// String returns the number of marks, in total and for each value. It is empty without marks.
func (m *markRegistry) String() string {
	if m == nil || len(m.read.Marks) == 0 {
		return ""
	}
	n := map[string]int{}
	for _, a := range m.read.Marks {
		n[a.Mark]++
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
	if sink.Kafka != nil {
		var chunk connectors.Chunk
		for _, m := range marks {
			chunk = append(chunk.Begin([]byte(m.ID), m.ID), records.Lines([]records.Mark{m})...)
		}
		return sink.Kafka.WriteChunk(ctx, chunk, log)
	}
	lines := records.Lines(marks)
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
