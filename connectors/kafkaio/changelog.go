package kafkaio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/jsontext"
	"hafvf/internal/parallel"
	"hafvf/internal/table"
)

// A changelog is a compacted topic with these keys:
//
//	""                 the head in partition 0, a mark in each other partition
//	"\x00"             the bottom of a partition, its first record
//	"\x00" i key       part i of a state that does not fit into one record; i is a uvarint
//	"\x00\x00" key     the state of a key that begins with a zero byte, or its part 0
//	outputKeyPrefix id a value of Ledger.StoreValue, in partition 0
//	paceKey log        the pace of a partition of the source, in partition 0
//	stepKey id         a watermark step that is not settled, in partition 0; see pendingStep
//	key                the state of any other key, or its part 0
//
// Every commit has a number, which it writes to the head. A commit that writes to a partition also updates the
// partition's mark, and the head contains the numbers of all marks. Thus check detects a partition that was emptied or
// is older than the others. A partition without its bottom has lost its first records. The head also determines the
// number of partitions for states; partitions that are added to the topic later stay empty.
const (
	headKey         = ""
	bottomKey       = "\x00"
	outputKeyPrefix = "\x00\xff\xff\xff\xff\x7f" // larger than the number of any part
	paceKey         = "\x00\xff\xff\xff\xff\x7e" // likewise
	stepKey         = "\x00\xff\xff\xff\xff\x7d" // likewise
	partsHeader     = "parts"                    // number of parts of a state that has several, in the record of part 0

	// recordOverhead is an upper bound of a record's size without key and value, in bytes.
	recordOverhead = 512
)

// portionBytes limits a transaction of states that need not be stored together. Tests change it.
var portionBytes = 64 << 20

// A changelogHead is the record that identifies a changelog.
type changelogHead struct {
	// ID is initially the id of the changelog's topic, so that two runs that start at once choose the same. It is
	// random if the topic has no id or the states were discarded.
	ID string `json:"id"`
	// Commit is the number of the last commit.
	Commit int64 `json:"commit"`
	// Marks are the numbers of the last commit to each partition.
	Marks []int64 `json:"marks"`
	// Topics are the ids, by name, of the topics whose records are in the states.
	Topics map[string]string `json:"topics,omitempty"`
	// Run is the run that started last, the owner of the changelog.
	Run *identity `json:"run,omitempty"`
	// Ended reports that Run has ended and was not killed.
	Ended bool `json:"ended,omitempty"`
	// Use is the purpose of the changelog.
	Use changelogUse `json:"use"`
	// Stored reports that states have been stored. They may have been deleted since.
	Stored bool `json:"stored,omitempty"`
	// Watermark is the last settled one in Unix milliseconds; 0 before the first step. See stepper.
	Watermark int64 `json:"watermark,omitempty"`
	// Beyond reports that the states and offsets include records that were handed over after that step.
	Beyond bool `json:"beyond,omitempty"`
	// Until limits how far the run may read before the next commit: the offset after the last record, by partition. It
	// contains only partitions in which the run may pass its last commit by more than lead.
	Until map[string]int64 `json:"until,omitempty"`
	// Unfinished is the operation that must finish before the states are complete, or empty.
	Unfinished string `json:"unfinished,omitempty"`
}

// Values of changelogHead.Unfinished.
const (
	discarding = "discarding" // deleting the old states, with DiscardStates
	beginning  = "beginning"  // storing LedgerConfig.InitialStates
)

// A changelogUse is what a run reads and writes in addition to the changelog.
type changelogUse struct {
	Group   string            `json:"group,omitempty"`
	Topics  []string          `json:"topics,omitempty"`  // sorted
	Outputs map[string]string `json:"outputs,omitempty"` // see LedgerConfig.Outputs
}

func (l *Ledger) use() changelogUse {
	return changelogUse{l.cfg.Group, slices.Sorted(slices.Values(l.cfg.Topics)), l.cfg.Outputs}
}

// differences describes the differences between two uses.
func (u changelogUse) differences(o changelogUse) (result []string) {
	differ := func(what, old, current string) {
		if old != current {
			result = append(result, fmt.Sprintf("%s was %s and is %s", what, cmp.Or(old, "none"), cmp.Or(current, "none")))
		}
	}
	differ("group", u.Group, o.Group)
	differ("topics", fmt.Sprint(u.Topics), fmt.Sprint(o.Topics))
	both := map[string]string{}
	maps.Copy(both, o.Outputs)
	maps.Copy(both, u.Outputs)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		differ(name, u.Outputs[name], o.Outputs[name])
	}
	return result
}

// A commitRecord is the record of a partition's last commit.
type commitRecord struct {
	Commit int64 `json:"commit"`
}

// keyPartitioner chooses the partition of a key as the Java client does.
var keyPartitioner = kgo.StickyKeyPartitioner(nil).ForTopic("")

func partitionFor(key []byte, partitions int) int32 {
	return int32(keyPartitioner.Partition(&kgo.Record{Key: key}, partitions))
}

// partKey returns the changelog key of a part of a state. key must not be empty.
func partKey(key string, part int) []byte {
	if part == 0 && key[0] != 0 {
		return []byte(key)
	}
	return append(binary.AppendUvarint([]byte{0}, uint64(part)), key...)
}

// parsePartKey is the inverse of partKey. It reports false if partKey does not return b for any key.
func parsePartKey(b string) (key string, part int, ok bool) {
	if b == "" || b == bottomKey {
		return "", 0, false
	}
	if b[0] != 0 {
		return b, 0, true
	}
	n, size := binary.Uvarint([]byte(b[1:]))
	if size <= 0 || n > math.MaxInt32 || len(b) == 1+size {
		return "", 0, false
	}
	return b[1+size:], int(n), true
}

// An entry is a record for a changelog.
type entry struct {
	partition  int32
	key, value []byte // a nil value deletes the key
	parts      int    // number of parts of a state, in its part 0
}

// A keyPosition is the partition and key of a record in a changelog.
type keyPosition struct {
	partition int32
	key       string // changelog key, see partKey
}

// changelogContents are the contents of a changelog.
type changelogContents struct {
	partitions int // of the topic
	head       changelogHead
	headAt     lastValue                    // record of the head; bytes is nil if there is none
	marks      map[int32][]byte             // by partition
	bottoms    map[int32]bool               // partitions that have a bottom
	states     lastValues                   // by key
	parts      map[string]int               // number of parts of each state that has several
	ownValues  map[string]map[string][]byte // last values of paceKey, stepKey and outputKeyPrefix, by prefix and rest of the key
	strays     map[keyPosition]bool         // records in partitions to which their keys do not belong
	broken     map[string]lastValue         // states with missing parts
}

// An unsealing is LedgerConfig.Unseal.
type unsealing func(dst []byte, key string, stored []byte) []byte

// readStored reads a changelog and unseals the states in it. If unseal is nil, the states stay as stored.
func readStored(ctx context.Context, client *Client, topic string, unseal unsealing, log *slog.Logger) (*changelogContents, error) {
	if unseal == nil {
		unseal = func(dst []byte, _ string, stored []byte) []byte { return append(dst, stored...) }
	}
	topics, err := client.describe(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	s := &changelogContents{partitions: topics[topic].partitions, marks: map[int32][]byte{}, bottoms: map[int32]bool{}, parts: map[string]int{}, ownValues: map[string]map[string][]byte{outputKeyPrefix: {}, paceKey: {}, stepKey: {}}, strays: map[keyPosition]bool{}, broken: map[string]lastValue{}}
	adders := make([]stateLoader, runtime.GOMAXPROCS(0))
	for i := range adders {
		adders[i] = stateLoader{states: &s.states, unseal: unseal, strays: map[keyPosition]bool{}}
	}
	err = client.ReadFrom(ctx, topic, nil, log, func(records []Record) {
		records = slices.DeleteFunc(records, s.takeOwn)
		parallel.Do(len(adders), len(adders), func(_, i int) {
			for _, r := range records {
				if table.Shard(r.Key)%len(adders) == i {
					adders[i].add(r)
				}
			}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("the changelog cannot be read: %w", err)
	}
	for _, a := range adders {
		maps.Copy(s.strays, a.strays)
	}
	s.join(unseal)
	return s, nil
}

// takeOwn stores a record of the changelog itself. It reports false if the record belongs to a state.
func (s *changelogContents) takeOwn(r Record) bool {
	p := int32(r.Partition)
	switch key := string(r.Key); {
	case key == headKey && p == 0:
		s.headAt = lastValue{bytes: bytes.Clone(r.Value), offset: r.Offset}
	case key == headKey:
		s.marks[p] = bytes.Clone(r.Value)
	case key == bottomKey:
		s.bottoms[p] = r.Value != nil
	default:
		for _, prefix := range [...]string{outputKeyPrefix, paceKey, stepKey} {
			if id, ok := strings.CutPrefix(key, prefix); ok && p == 0 {
				if s.ownValues[prefix][id] = bytes.Clone(r.Value); r.Value == nil {
					delete(s.ownValues[prefix], id)
				}
				return true
			}
		}
		return false
	}
	return true
}

// A stateLoader adds the states of a subset of the keys, in one goroutine.
type stateLoader struct {
	states          *lastValues
	unseal          unsealing
	strays          map[keyPosition]bool
	value, unsealed []byte // buffers for one record
}

// add adds a record of a state, under the key of the record. join replaces that by the key of the state.
func (a *stateLoader) add(r Record) {
	p, key := int32(r.Partition), string(r.Key)
	prev, known := a.states.get(key)
	switch elsewhere := known && prev.partition != p; {
	case elsewhere && r.Value != nil:
		a.strays[keyPosition{p, key}] = true
	case elsewhere:
		delete(a.strays, keyPosition{p, key})
	case r.Value == nil:
		a.states.Put(key, nil)
	default:
		v := lastValue{bytes: r.Value, offset: r.Offset, partition: p}
		for _, h := range r.Headers {
			if n, err := strconv.ParseInt(string(h.Value), 10, 32); h.Key == partsHeader && err == nil {
				v.parts = int32(n)
			}
		}
		if key[0] != 0 && v.parts <= 1 { // otherwise join unseals the whole state under its own key
			a.unsealed = a.unseal(a.unsealed[:0], key, r.Value)
			v.bytes = a.unsealed
		}
		a.value = appendLastValue(a.value[:0], v)
		a.states.Put(key, a.value)
	}
}

// join decodes the head, and joins the parts of states.
func (s *changelogContents) join(unseal unsealing) {
	json.Unmarshal(s.headAt.bytes, &s.head) // check refuses a head that cannot be decoded
	parts := map[string]map[int][]byte{}
	plain := map[string]lastValue{} // states whose records have another key
	var rewritten, several []string
	var mu sync.Mutex
	parallel.Do(table.NumShards, runtime.GOMAXPROCS(0), func(_, shard int) {
		for raw, b := range s.states.In(shard) {
			v := decodeLastValue(b)
			key, part, ok := parsePartKey(raw)
			n := len(s.head.Marks)
			stray := !ok || n > 0 && partitionFor([]byte(key), n) != v.partition
			if !stray && raw == key && v.parts <= 1 {
				continue
			}
			mu.Lock()
			if stray {
				s.strays[keyPosition{v.partition, raw}] = true
			}
			if ok && part > 0 {
				if parts[key] == nil {
					parts[key] = map[int][]byte{}
				}
				parts[key][part] = bytes.Clone(v.bytes)
				s.parts[key] = max(s.parts[key], part+1)
			}
			if v.parts > 1 && part == 0 {
				several = append(several, key)
			}
			if raw != key {
				rewritten = append(rewritten, raw)
				if v.bytes = bytes.Clone(v.bytes); ok && part == 0 {
					plain[key] = v
				}
			}
			mu.Unlock()
		}
	})
	for _, raw := range rewritten {
		s.states.Put(raw, nil)
	}
	for key, v := range plain {
		if v.parts <= 1 {
			v.bytes = unseal(nil, key, v.bytes)
		}
		s.states.put(key, v)
	}
	for _, key := range several {
		v, _ := s.states.get(key)
		v.bytes = bytes.Clone(v.bytes)
		for i := 1; i < int(v.parts); i++ {
			b, ok := parts[key][i]
			if !ok {
				s.broken[key] = v
			}
			v.bytes = append(v.bytes, b...)
		}
		v.bytes = unseal(nil, key, v.bytes)
		s.states.put(key, v)
	}
}

// check returns an error if a changelog with states or a head is damaged or incomplete.
func (s *changelogContents) check(topic string) error {
	const copied = "a copy of a changelog must keep the partitions of its records; restore the topic, or discard the states"
	n := len(s.head.Marks)
	switch {
	case s.headAt.bytes != nil && !json.Valid(s.headAt.bytes):
		return fmt.Errorf("the head of the changelog, at %s, the record with the empty key, is damaged; restore the topic, or discard the states", s.headAt.position(topic))
	case s.head.ID == "" || n == 0:
		return fmt.Errorf("the changelog %s has no head, the record with the empty key in partition 0: another version of this program wrote it, or another program, or the partition was emptied; name another topic, restore this one, or discard the states", topic)
	case s.partitions < n:
		return fmt.Errorf("the changelog %s has %d partitions, and its states are in %d: %s", topic, s.partitions, n, copied)
	}
	for p, number := range s.head.Marks {
		partition := Position{Topic: topic, Partition: p}.Log()
		var m commitRecord
		if p == 0 {
			m.Commit = s.head.Commit
			number = s.head.Commit
		} else if b := s.marks[int32(p)]; b != nil {
			if err := json.Unmarshal(b, &m); err != nil {
				return fmt.Errorf("the mark of %s, the record with the empty key, is damaged: %w; restore the topic, or discard the states", partition, err)
			}
		}
		switch {
		case !s.bottoms[int32(p)]:
			return fmt.Errorf("the partition %s of the changelog has lost its first records, and with them the states of keys: restore the topic, or discard the states", partition)
		case m.Commit != number:
			return fmt.Errorf("the partition %s of the changelog has the commit %d, but the head expects %d: the partitions are from different times, as after a backup was restored in part; restore the topic, or discard the states", partition, m.Commit, number)
		}
	}
	for stray := range s.strays {
		return fmt.Errorf("the changelog %s has the key %q in partition %d, where it does not belong: %s", topic, stray.key, stray.partition, copied)
	}
	for key, v := range s.broken {
		return fmt.Errorf("the changelog %s lacks parts of the state of the key %q, at %s; restore the topic, or discard the states", topic, key, v.position(topic))
	}
	return nil
}

// recordPositions returns the positions of all records of states and own values.
func (s *changelogContents) recordPositions() []keyPosition {
	list := slices.Collect(maps.Keys(s.strays))
	for prefix, values := range s.ownValues {
		for id := range values {
			list = append(list, keyPosition{0, prefix + id})
		}
	}
	for key, b := range s.states.All() {
		v := decodeLastValue(b)
		for i := range max(1, s.parts[key], int(v.parts)) {
			if position := (keyPosition{v.partition, string(partKey(key, i))}); !s.strays[position] {
				list = append(list, position)
			}
		}
	}
	return list
}

// commitEntries puts the entries of one commit, and tracks the partitions that it writes to.
type commitEntries struct {
	head     *changelogHead
	parts    map[string]int // number of stored parts of each state that has several
	maxBatch int            // maximum batch size
	wrote    map[int32]bool
	put      func(entry)
}

// putState puts the entries of a key's state, in parts if it is large. A nil value deletes the state.
func (e *commitEntries) putState(key string, value []byte) {
	p := partitionFor([]byte(key), len(e.head.Marks))
	e.wrote[p] = true
	oldParts, n := e.parts[key], 0
	room := max(1, e.maxBatch-len(key)-recordOverhead)
	if value != nil {
		e.head.Stored = true
		n = max(1, (len(value)+room-1)/room)
	}
	if delete(e.parts, key); n > 1 {
		e.parts[key] = n
	}
	for i := range n {
		part := entry{partition: p, key: partKey(key, i), value: value[i*room : min(len(value), (i+1)*room)]}
		if i == 0 && n > 1 {
			part.parts = n
		}
		e.put(part)
	}
	for i := n; i < max(oldParts, 1); i++ {
		e.put(entry{partition: p, key: partKey(key, i)})
	}
}

// putOwn puts an entry of the changelog itself. A nil value deletes it.
func (e *commitEntries) putOwn(key string, value []byte) {
	e.wrote[0] = true
	e.put(entry{key: []byte(key), value: value})
}

// end puts the marks and the head.
func (e *commitEntries) end() {
	for p := range e.wrote {
		if int(p) < len(e.head.Marks) {
			e.head.Marks[p] = e.head.Commit
		}
	}
	mark := []byte(jsontext.Of(commitRecord{e.head.Commit}))
	for p := range e.wrote {
		if p != 0 {
			e.put(entry{partition: p, key: []byte(headKey), value: mark})
		}
	}
	e.put(entry{key: []byte(headKey), value: []byte(jsontext.Of(e.head))})
}

// ReadStates returns the states of a changelog, ordered by position. It changes nothing, and a run may continue
// meanwhile.
func (client *Client) ReadStates(ctx context.Context, changelog string, log *slog.Logger) ([]StoredState, error) {
	s, err := readStored(ctx, client, changelog, nil, log)
	if err != nil {
		return nil, err
	}
	return byPosition(changelog, &s.states), nil
}

// byPosition drains states into a slice that is ordered by position.
func byPosition(changelog string, states *lastValues) []StoredState {
	list := make([]StoredState, 0, states.Len())
	for key, b := range states.Drain() {
		s := decodeLastValue(b)
		list = append(list, StoredState{Position: s.position(changelog), Key: key, Bytes: bytes.Clone(s.bytes)})
	}
	slices.SortFunc(list, func(a, b StoredState) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return list
}

// A lastValue is the last value of a key in a topic, with its position.
type lastValue struct {
	bytes     []byte
	offset    int64
	partition int32
	parts     int32 // see partsHeader
}

func (v lastValue) position(topic string) Position {
	return Position{topic, int(v.partition), v.offset}
}

// lastValues holds the last values of a topic by key, encoded by appendLastValue. There may be millions.
type lastValues struct{ table.Shards }

func (s *lastValues) get(key string) (v lastValue, ok bool) {
	b := s.Get(key)
	if b == nil {
		return v, false
	}
	return decodeLastValue(b), true
}

func (s *lastValues) put(key string, v lastValue) { s.Put(key, appendLastValue(nil, v)) }

func appendLastValue(dst []byte, v lastValue) []byte {
	dst = binary.AppendUvarint(dst, uint64(v.partition))
	dst = binary.AppendUvarint(dst, uint64(v.offset))
	dst = binary.AppendUvarint(dst, uint64(v.parts))
	return append(dst, v.bytes...)
}

func decodeLastValue(b []byte) lastValue {
	next := func() uint64 {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return n
	}
	partition, offset, parts := next(), next(), next()
	return lastValue{b, int64(offset), int32(partition), int32(parts)}
}

// ReadFrom calls do with the records of a topic up to its current end. Records of a partition keep their order. from
// holds start offsets by Position.Log. A partition without a start offset, or whose end is before it, is read from its
// beginning.
func (client *Client) ReadFrom(ctx context.Context, topic string, from map[string]int64, log *slog.Logger, do func([]Record)) error {
	src := Source{Cluster: client.cluster, Topics: []string{topic}, Start: Start{At: Earliest}, Bounded: true}
	spans, err := src.findSpans(ctx, client, nil)
	if err != nil {
		return err
	}
	for i := range spans {
		if s := &spans[i]; from[s.Log()] <= s.End {
			s.Offset = max(s.Offset, from[s.Log()])
		}
	}
	if from != nil && !slices.ContainsFunc(spans, func(s span) bool { return !s.done() }) {
		return nil
	}
	rest := restriction{Readers: 1, Partitions: spans, Bounded: true}
	limits := readLimits
	limits.Record = math.MaxInt // a state may exceed MaxRecord
	c := newConsumer(ctx, client, src, rest, limits, log)
	defer c.close()
	for t := (&tracker{rest: rest}); !t.IsDone(); {
		i, b := c.take()
		if i < 0 {
			select {
			case <-c.arrived:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		if b.err != nil {
			return b.err
		}
		t.TryClaim(claimRecords{partition: i, before: b.next})
		do(b.records)
	}
	return nil
}

// refuseUse returns an error if a run with another config wrote the changelog, unless Migrate is set.
func (l *Ledger) refuseUse() error {
	differences := l.head.Use.differences(l.use())
	if len(differences) == 0 || l.cfg.Migrate {
		return nil
	}
	owner := "a run of another config"
	if l.head.Run != nil {
		owner = l.head.Run.String()
	}
	return fmt.Errorf("the changelog %s belongs to %s, and this config differs: %s; two configs on one changelog would use each other's states; name another changelog or, if the config was changed on purpose, continue with --migrate",
		l.cfg.Changelog, owner, strings.Join(differences, ", "))
}

// refuseUnfinished returns an error if an earlier run has not stored its states completely.
func (l *Ledger) refuseUnfinished() error {
	switch l.head.Unfinished {
	case discarding:
		return &ResumeError{errors.New("a run ended before it had discarded all states of the changelog " + l.cfg.Changelog + ": discard them again")}
	case beginning:
		if len(l.cfg.InitialStates) == 0 {
			return &ResumeError{errors.New("a run ended before it had stored all given states in the changelog " + l.cfg.Changelog + ": start it with the same file of states, or discard the states")}
		}
	}
	return nil
}
