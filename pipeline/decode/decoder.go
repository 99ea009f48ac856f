package decode

import (
	"bytes"
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

// A Decoder turns records into observations, many in parallel. One goroutine at a time uses
// it.
type Decoder struct {
	Folds *times.Folds // the decoders of one source share them

	tables bool // records are rows
	parser *Parser
	found  []Decoded
	texts  [][]byte     // one for each goroutine
	parts  []objectPart // of JSON objects that hold several observations
}

// NewDecoder makes a decoder of records as the parser describes them, of files of a format of
// package connectors, or of topics.
func NewDecoder(format string, p *Parser) *Decoder {
	return &Decoder{Folds: &times.Folds{}, tables: connectors.FormatOf(format).Columns, parser: p, texts: make([][]byte, runtime.GOMAXPROCS(0))}
}

// Decoded is what a record becomes: an observation of a key, or the reason why not. Its
// memory is used again for another record.
type Decoded struct {
	keyed.Observation // ID and Raw of every record
	Key               string
	Err               error
	Lost              int    // with Err, how many observations of a wide record are lost; 0 for one
	RecordKey         []byte // of a Kafka record

	raw []byte
	// Where the ID and then raw are in the text of several records.
	id, end int
}

// Together is the largest number of records that are decoded together.
const Together = 1024

// decode decodes n records, at most Together, each goroutine a stretch of them. each
// decodes one, and appends its ID to a text. The result is valid until the next call.
func (d *Decoder) decode(n int, each func(i int, to *Decoded, text []byte) []byte) []Decoded {
	if d.found == nil {
		d.found = make([]Decoded, Together)
	}
	found := d.found[:n]
	parallel.Chunks(n, len(d.texts), func(worker, from, end int) {
		text := d.texts[worker][:0]
		part := found[from:end]
		for i := range part {
			to := &part[i]
			*to = Decoded{Observation: keyed.Observation{X: to.X}}
			text = each(from+i, to, text)
			if to.Err == nil && len(to.Key) > domain.MaxKey {
				to.Key, to.Err = "", domain.CheckKey(to.Key) // before others keep it
			}
			to.id = len(text)
			text = append(text, to.raw...)
			to.end = len(text)
		}
		// One text for all: a small one of each record would cost more than its decoding.
		all, begin := string(text), 0
		for i := range part {
			to := &part[i]
			to.ID, to.Raw = all[begin:to.id], all[to.id:to.end]
			begin = to.end
		}
		d.texts[worker] = text
	})
	now := time.Now()
	for i := range found {
		to := &found[i]
		if to.Err != nil {
			continue
		}
		if to.Time.Location() != time.UTC {
			to.Time = d.Folds.Resolve(to.Key, to.Time)
		}
		to.Err = d.parser.checkAhead(to.Time, now)
	}
	return found
}

// File decodes at most Together records of files, and calls take with what they become, once or
// several times. That is valid during the call.
func (d *Decoder) File(all []connectors.Record, take func([]Decoded)) {
	series := ""
	if len(d.parser.Key) == 0 {
		series = seriesName(all[0].Source)
	}
	if !d.tables && d.parser.splits() {
		d.parted(all, take)
		return
	}
	take(d.decode(len(all), func(i int, to *Decoded, text []byte) []byte {
		r, from := &all[i], origin{series: series}
		if series != "" && r.Source != all[0].Source {
			from.series = seriesName(r.Source)
		}
		switch {
		case r.Reason != "":
			to.Err, to.Lost = errors.New(r.Reason), r.Series
		case !d.tables:
			to.Key, to.Err = d.parser.json(r.Raw, from, &to.Observation)
		default:
			to.Key, to.Err = d.parser.row(r.Fields, from, &to.Observation)
		}
		to.Seq, to.raw = r.Index, r.Raw
		return r.AppendPlace(text)
	}))
}

// parted decodes records that hold several observations each.
func (d *Decoder) parted(all []connectors.Record, take func([]Decoded)) {
	d.parts = d.parts[:0]
	for i := range all {
		if r := &all[i]; r.Reason != "" {
			d.parts = append(d.parts, d.parser.lost(i, errors.New(r.Reason)))
		} else {
			d.parts = d.parser.split(d.parts, i, r.Raw)
		}
		if len(d.parts) >= Together { // a record may have very many
			d.takeParts(all, take)
		}
	}
	d.takeParts(all, take)
}

// takeParts decodes the parts of the records.
func (d *Decoder) takeParts(all []connectors.Record, take func([]Decoded)) {
	for some := range slices.Chunk(d.parts, Together) {
		take(d.decode(len(some), func(i int, to *Decoded, text []byte) []byte {
			o := &some[i]
			r := &all[o.record]
			raw := r.Raw
			to.Err, to.Lost = o.err, o.lost
			if o.err == nil {
				raw = o.raw
				to.Key, to.Err = d.parser.observation(o.fields, origin{series: seriesName(r.Source)}, &to.Observation)
			}
			to.Seq, to.raw = r.Index, raw[:min(len(raw), connectors.MaxRaw)]
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

// seriesName is how the series of a file without keys is called: as the file, without
// the extensions of its format and compression.
func seriesName(file string) string {
	file = connectors.Unpacked(file)
	return strings.TrimSuffix(file, filepath.Ext(file))
}

// Topic decodes at most Together records of one partition. The result is valid until the
// next call.
func (d *Decoder) Topic(part []kafkaio.Record) []Decoded {
	log := part[0].Log() // of all
	return d.decode(len(part), func(i int, to *Decoded, text []byte) []byte {
		r := &part[i]
		to.Key, to.Err = d.parser.record(r, &to.Observation)
		to.Log, to.Seq, to.LogTime = log, r.Offset, r.LogTime
		to.RecordKey, to.raw = r.Key, rawOf(r)
		return strconv.AppendInt(append(append(text, log...), '-'), r.Offset, 10)
	})
}

// rawOf is what the dead letter shows of a record: its value, which is in base64 if it has a
// schema and could not be turned into JSON.
func rawOf(r *kafkaio.Record) []byte {
	v := r.Value[:min(len(r.Value), connectors.MaxRaw)]
	if r.DecodeInfo != nil && r.DecodeInfo.Reason != "" && bytes.HasPrefix(v, []byte{0}) {
		return base64.StdEncoding.AppendEncode(nil, v[:min(len(v), connectors.MaxRaw/4*3)])
	}
	return v
}

// record reads an observation from the JSON of a record's value. A value without a key has
// the key of the record.
func (p *Parser) record(r *kafkaio.Record, o *keyed.Observation) (key string, err error) {
	switch v := r.Value; {
	case r.Oversized > 0:
		return "", fmt.Errorf("the record has %d bytes, and at most %d are read", r.Oversized, kafkaio.MaxRecord)
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
		return "", fmt.Errorf("the value is framed by a schema registry (schema %d): set registry of the source to that, and no format: json", uint32(v[1])<<24|uint32(v[2])<<16|uint32(v[3])<<8|uint32(v[4]))
	}
	return p.json(r.Value, origin{series: r.Topic, key: r.Key, found: r.DecodeInfo}, o)
}

// forgotten is the key that a tombstone is for: the fields of the record's key, as those of a value,
// or, where it has none and no schema, itself.
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
