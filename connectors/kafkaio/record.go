package kafkaio

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"hafvf/connectors/kafkaio/recordbatch"
	"hafvf/internal/compact"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterCoder(reflect.TypeFor[Record](),
		func(r Record) []byte { return compact.Encode(nil, r, recordForm) },
		func(b []byte) (r Record, err error) { err = compact.Decode(b, &r, recordForm); return r, err })
}

// A Record is one record of a topic, with key and value as stored unless a Form has converted them.
type Record struct {
	Position
	Time    time.Time // the record's timestamp or, with message.timestamp.type LogAppendTime, the broker's; UTC
	Key     []byte    // nil if null
	Value   []byte    // nil for a tombstone
	Headers []Header
	// Oversized is the size of a record that is larger than MaxRecord, or 0. Key and Value of such a record are
	// truncated, and Headers is nil.
	Oversized int
	// LogTime is the time that the previous records of the partition have passed, by the clock of the source; see
	// timeReach.logTime. It is zero if it is not later than the time of this record.
	LogTime time.Time `json:",omitzero"`
	// DecodeInfo is nil if the Form reports nothing about the record.
	DecodeInfo *DecodeInfo `json:"Finding,omitempty"`
}

type Header = recordbatch.Header

// A Position is the offset of a record in a partition.
type Position struct {
	Topic     string
	Partition int
	Offset    int64
}

// Log returns the name of the partition, topic-partition.
func (p Position) Log() string { return p.Topic + "-" + strconv.Itoa(p.Partition) }

// LogPosition returns Log and Offset. With it, filters of package transforms recognise records that they have already learned.
func (p Position) LogPosition() (log string, seq int64) { return p.Log(), p.Offset }

// parsePosition returns the position with offset in the partition that log names, the inverse of Log. It reports false
// if log is not such a name: topics can contain any text.
func parsePosition(log string, offset int64) (p Position, ok bool) {
	i := strings.LastIndexByte(log, '-')
	n, err := strconv.Atoi(log[i+1:])
	if i < 0 || err != nil {
		return Position{}, false
	}
	return Position{log[:i], n, offset}, true
}

// String returns the position's id, topic-partition-offset.
func (p Position) String() string { return p.Log() + "-" + strconv.FormatInt(p.Offset, 10) }
