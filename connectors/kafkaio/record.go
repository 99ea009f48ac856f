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

// A Record is one record of a topic as it came.
type Record struct {
	Position
	Time    time.Time // the record's timestamp, or that of the broker where the topic has it so; UTC
	Key     []byte    // nil where it is null
	Value   []byte    // nil for a tombstone
	Headers []Header
	// Oversized is the size of a record above MaxRecord, of which Key and Value are
	// only the beginnings and Headers nil; 0 of any other.
	Oversized int
	// LogTime is the time that the records before this one have passed in its partition, by the
	// clock of the source, if that is later than the time of this one: see timeReach.logTime. It is zero
	// otherwise.
	LogTime time.Time `json:",omitzero"`
	// DecodeInfo is nil if no Form has anything to say.
	DecodeInfo *DecodeInfo `json:"Finding,omitempty"`
}

// A Header is one header of a record.
type Header = recordbatch.Header

// A Position is a place in a partition.
type Position struct {
	Topic     string
	Partition int
	Offset    int64
}

// Log names the partition: topic and number.
func (p Position) Log() string { return p.Topic + "-" + strconv.Itoa(p.Partition) }

// LogPosition returns Log and Offset. With it, filters of package transforms recognise records that they have already learned.
func (p Position) LogPosition() (log string, seq int64) { return p.Log(), p.Offset }

// parsePosition is a position in a partition that Log has named. It is not ok if log names none, as what a topic
// holds may.
func parsePosition(log string, offset int64) (p Position, ok bool) {
	i := strings.LastIndexByte(log, '-')
	n, err := strconv.Atoi(log[i+1:])
	if i < 0 || err != nil {
		return Position{}, false
	}
	return Position{log[:i], n, offset}, true
}

// String is the position's id, topic-partition-offset.
func (p Position) String() string { return p.Log() + "-" + strconv.FormatInt(p.Offset, 10) }
