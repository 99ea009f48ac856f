package decode

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/parallel"
	"hafvf/internal/times"
)

// A Decoder converts records into observations, in parallel. It is not safe for concurrent use.
type Decoder struct {
	Folds *times.Folds // shared by the decoders of one source

	tables bool // records are table rows
	parser *Parser
	found  []Decoded
	texts  [][]byte     // one per goroutine
	parts  []objectPart // for JSON objects that contain several observations
}

// NewDecoder returns a decoder of records as the parser describes them. format is a file format of package
// connectors, or empty for topics.
func NewDecoder(format string, p *Parser) *Decoder {
	return &Decoder{Folds: &times.Folds{}, tables: connectors.FormatOf(format).Columns, parser: p, texts: make([][]byte, runtime.GOMAXPROCS(0))}
}

// A Decoded is the result of a record: an observation of a key, or the error that rejects it. A rejected record has its
// Key and Time if they can be read and the time is not too far ahead. The memory is reused for later records.
type Decoded struct {
	keyed.Observation // ID and Raw are always set
	Key               string
	Err               error
	LostObservations  int    // if Err is set, the number of observations lost with a wide record; 0 means one
	RecordKey         []byte // key of a Kafka record

	raw []byte
	// id and end are the ends of ID and raw in the joined text of several records.
	id, end int
}

// MaxBatch is the maximum number of records that are decoded together.
const MaxBatch = 1024

// decode decodes n records, at most MaxBatch. Each goroutine decodes a range of them. each decodes record i into dst
// and appends its ID to text. The result is valid until the next call.
func (d *Decoder) decode(n int, each func(i int, dst *Decoded, text []byte) []byte) []Decoded {
	if d.found == nil {
		d.found = make([]Decoded, MaxBatch)
	}
	found := d.found[:n]
	parallel.Chunks(n, len(d.texts), func(worker, from, end int) {
		text := d.texts[worker][:0]
		part := found[from:end]
		for i := range part {
			dst := &part[i]
			*dst = Decoded{Observation: keyed.Observation{X: dst.X}}
			text = each(from+i, dst, text)
			if len(dst.Key) > domain.MaxKey {
				dst.Key, dst.Err = "", cmp.Or(dst.Err, domain.CheckKey(dst.Key)) // before anything stores the key
			}
			dst.id = len(text)
			text = append(text, dst.raw...)
			dst.end = len(text)
		}
		// All records share one string, because a small string per record would cost more than its decoding.
		joinedText, begin := string(text), 0
		for i := range part {
			dst := &part[i]
			dst.ID, dst.Raw = joinedText[begin:dst.id], joinedText[dst.id:dst.end]
			begin = dst.end
		}
		d.texts[worker] = text
	})
	now := time.Now()
	for i := range found {
		dst := &found[i]
		if dst.Err == nil && dst.Time.Location() != time.UTC {
			dst.Time = d.Folds.Resolve(dst.Key, dst.Time)
		}
		if err := d.parser.checkAhead(dst.Time, now); err != nil {
			dst.Time, dst.Err = time.Time{}, cmp.Or(dst.Err, err)
		}
	}
	return found
}

// File decodes at most MaxBatch records of files. It calls take once or several times with the results, which are
// valid during the call.
func (d *Decoder) File(records []connectors.Record, take func([]Decoded)) {
	if !d.tables && d.parser.splits() {
		d.parted(records, take)
		return
	}
	first := d.parser.origin(&records[0])
	take(d.decode(len(records), func(i int, dst *Decoded, text []byte) []byte {
		r, from := &records[i], first
		if r.Path != records[0].Path {
			from = d.parser.origin(r)
		}
		switch {
		case r.Reason != "":
			dst.Err, dst.LostObservations = errors.New(r.Reason), r.Series
		case !d.tables:
			dst.Key, dst.Err = d.parser.json(r.Raw, from, &dst.Observation)
		default:
			dst.Key, dst.Err = d.parser.row(r.Fields, from, &dst.Observation)
		}
		dst.Seq, dst.raw = r.Index, r.Raw
		return r.AppendPlace(text)
	}))
}

// parted decodes records that contain several observations each.
func (d *Decoder) parted(records []connectors.Record, take func([]Decoded)) {
	d.parts = d.parts[:0]
	for i := range records {
		if r := &records[i]; r.Reason != "" {
			d.parts = append(d.parts, d.parser.lost(i, errors.New(r.Reason)))
		} else {
			d.parts = d.parser.split(d.parts, i, r.Raw)
		}
		if len(d.parts) >= MaxBatch { // a record may have very many
			d.takeParts(records, take)
		}
	}
	d.takeParts(records, take)
}

// takeParts decodes the parts of the records.
func (d *Decoder) takeParts(records []connectors.Record, take func([]Decoded)) {
	for chunk := range slices.Chunk(d.parts, MaxBatch) {
		take(d.decode(len(chunk), func(i int, dst *Decoded, text []byte) []byte {
			o := &chunk[i]
			r := &records[o.record]
			raw := r.Raw
			dst.Err, dst.LostObservations = o.err, o.lost
			if o.err == nil {
				raw = o.raw
				dst.Key, dst.Err = d.parser.observation(o.fields, d.parser.origin(r), &dst.Observation)
			}
			dst.Seq, dst.raw = r.Index, raw[:min(len(raw), connectors.MaxRaw)]
			text = r.AppendPlace(text)
			if o.number >= 0 {
				text = strconv.AppendInt(append(text, '/'), int64(o.number), 10)
			}
			return text
		}))
	}
	clear(d.parts)
	d.parts = d.parts[:0]
}

// seriesName returns the name of the series of a file without keys: the file name without the extensions of its
// format and compression.
func seriesName(file string) string {
	file = connectors.Unpacked(file)
	return strings.TrimSuffix(file, filepath.Ext(file))
}

// Topic decodes at most MaxBatch records of one partition. The result is valid until the next call.
func (d *Decoder) Topic(part []kafkaio.Record) []Decoded {
	log := part[0].Log() // the same for all
	return d.decode(len(part), func(i int, dst *Decoded, text []byte) []byte {
		r := &part[i]
		dst.Key, dst.Err = d.parser.record(r, &dst.Observation)
		dst.Log, dst.Seq, dst.LogTime = log, r.Offset, r.LogTime
		dst.RecordKey, dst.raw = r.Key, rawOf(r)
		return strconv.AppendInt(append(append(text, log...), '-'), r.Offset, 10)
	})
}

// rawOf returns the value of a record for the dead letter. The value is in base64 if it has a schema and could not be
// converted to JSON.
func rawOf(r *kafkaio.Record) []byte {
	v := r.Value[:min(len(r.Value), connectors.MaxRaw)]
	if r.DecodeInfo != nil && r.DecodeInfo.Reason != "" && bytes.HasPrefix(v, []byte{0}) {
		return base64.StdEncoding.AppendEncode(nil, v[:min(len(v), connectors.MaxRaw/4*3)])
	}
	return v
}

// record reads an observation from the JSON value of a record. If the value has no key, the record's key is used.
func (p *Parser) record(r *kafkaio.Record, o *keyed.Observation) (key string, err error) {
	switch v := r.Value; {
	case r.Oversized > 0:
		return "", fmt.Errorf("the record has %d bytes; at most %d are read", r.Oversized, kafkaio.MaxRecord)
	case v == nil:
		if p.Forget {
			o.Shape = keyed.Forget
			return p.forgotten(r)
		}
		return "", errors.New("a tombstone: the record has no value")
	case len(v) == 0:
		return "", errors.New("the value is empty")
	case r.DecodeInfo != nil && r.DecodeInfo.Reason != "":
		return "", errors.New(r.DecodeInfo.Reason)
	case len(v) > 4 && v[0] == 0:
		return "", fmt.Errorf("the value is framed by a schema registry (schema %d): set registry in the source, and leave out format: json", uint32(v[1])<<24|uint32(v[2])<<16|uint32(v[3])<<8|uint32(v[4]))
	}
	key, err = p.json(r.Value, origin{series: r.Topic, key: r.Key, found: r.DecodeInfo}, o)
	if err == nil && p.UsesRecordTime() && !p.Untimed {
		o.Time, err = recordTime(r)
	}
	return key, err
}

// forgotten returns the key that a tombstone is for. It reads the key's fields from the record's key. If the record's
// key has no such fields and no schema, it is the key itself.
func (p *Parser) forgotten(r *kafkaio.Record) (key string, err error) {
	parts := make([][]byte, len(p.Key))
	from := origin{series: r.Topic, key: r.Key, found: r.DecodeInfo}
	if err := p.keyOfRecord(parts, from); err != nil {
		return "", err
	}
	if r.DecodeInfo == nil && !slices.ContainsFunc(parts, func(part []byte) bool { return part != nil }) {
		return string(r.Key), nil
	}
	return p.jsonKey(parts, from)
}
