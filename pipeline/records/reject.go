package records

import (
	"strconv"
	"strings"
)

// A SourcePlace is the place of a record in its source.
type SourcePlace struct {
	ID  string // file:line or topic-partition-offset
	Log string // topic-partition; only for topics
	Seq int64  // offset
}

// A reject is a record that could not be used.
type reject struct {
	SourcePlace
	raw, reason string
}

var rejects = []field[reject]{
	text("reason", "Why the record was rejected.", func(r reject) string { return r.reason }),
	text("place", "Position of the record: file:line or topic-partition-offset.", func(r reject) string { return r.ID }),
	ofTopic(text("id", "topic-partition-offset; only for topics.", func(r reject) string { return r.ID })),
	ofTopic(text("topic", "Topic of the record.", func(r reject) string { return r.Log[:strings.LastIndexByte(r.Log, '-')] })),
	ofTopic(count("partition", "", "Partition of the record.", func(r reject) (int64, bool) {
		n, err := strconv.ParseInt(r.Log[strings.LastIndexByte(r.Log, '-')+1:], 10, 64)
		return n, err == nil
	})),
	ofTopic(count("offset", "", "Offset of the record.", func(r reject) (int64, bool) { return r.Seq, true })),
	text("raw", "The record as it came in, cut if it is long. For a record with a schema: the decoded JSON, or base64 if the record does not fit the schema.", func(r reject) string { return r.raw }),
}

func ofTopic(f field[reject]) field[reject] {
	return only(f, func(r reject) bool { return strings.Contains(r.Log, "-") }, nil)
}

// AppendReject appends a dead-letter record, a JSON object and a line end.
func AppendReject(b []byte, p SourcePlace, raw, reason string) []byte {
	return append(appendObject(b, nil, reject{p, raw, reason}, rejects), '\n')
}
