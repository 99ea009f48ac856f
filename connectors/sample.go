package connectors

import (
	"bytes"
	"io"
	"math"
	"slices"
)

// Head returns the first 256 KiB of a text file as UTF-8, with "\n" as the line end. encoding is one of Encodings
// or empty. If the file is longer, the result ends with a complete line, unless it contains only one.
func Head(path, encoding string) ([]byte, error) {
	r, err := openText(path, encoding)
	if err != nil {
		return nil, err
	}
	l := newLines(r, path, path)
	defer l.close()
	for l.begin(); l.err == nil && l.end-l.start < window; {
		l.fill()
	}
	if l.err != nil && l.err != io.EOF {
		return nil, l.readError()
	}
	text := l.buf[l.start:l.end]
	if i := bytes.LastIndexByte(text, '\n'); l.err == nil && i >= 0 {
		text = text[:i+1]
	}
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), nil
}

// A Sampled is the result of Sample.
type Sampled struct {
	Columns []string // of the first file; nil for JSON
	// Unread describes columns of a Parquet file with unsupported types, if the source names no columns.
	Unread []string
	// Records contains the records of each place, in the order of the source. After the first place of a text file,
	// Position counts from a byte, see Record.After.
	Records [][]Record
	// Whole means that Records contains all records of the source. If it is false and there is only one place, its
	// records are the first ones, because the rest could not be sought.
	Whole bool
}

// nPlaces is the number of places at which Sample reads.
const nPlaces = 10

// Sample reads about n records of a source: all of them if there are no more, otherwise a tenth at each of ten
// evenly spaced places. If a file cannot be sought, for example because it is compressed or a JSON array, Sample
// reads the first n. It reads fewer if rows are wide. If the source names no columns, Sample reads all columns.
func Sample(src Source, n int) (*Sampled, error) {
	if len(src.Key)+len(src.Values) == 0 && src.Time == "" {
		src = src.withAllColumns()
	}
	paths, err := src.files()
	if err != nil {
		return nil, err
	}
	s := &Sampled{Whole: true}
	var first []Record
	for i, path := range paths {
		rr, err := src.open(path, nil)
		if err != nil {
			return nil, err
		}
		records, err := readRecords(rr, n-len(first), 1, math.MaxInt64)
		if i == 0 {
			s.Columns = rr.columns()
			if p, ok := rr.(*parquetReader); ok {
				s.Unread = p.unread
			}
		}
		s.align(src, rr.columns(), records)
		rr.close()
		if err != nil && err != io.EOF {
			return nil, err
		}
		first = append(first, records...)
		if err == nil {
			s.Whole = false
			break
		}
	}
	if !s.Whole && !readsOnce(paths[0]) {
		if err := s.spread(src, paths, n/nPlaces); err != nil {
			return nil, err
		}
	}
	if len(s.Records) < 2 {
		s.Records = [][]Record{first}
	}
	return s, nil
}

// align puts the fields of records with other columns in the order of s.Columns, if all columns are read.
func (s *Sampled) align(src Source, columns []string, records []Record) {
	if !src.allColumns || slices.Equal(columns, s.Columns) {
		return
	}
	for i := range records {
		fields := records[i].Fields
		if fields == nil { // rejected
			continue
		}
		records[i].Fields = make([]string, len(s.Columns))
		for k, name := range s.Columns {
			if at := slices.Index(columns, name); at >= 0 {
				records[i].Fields[k] = fields[at]
			}
		}
	}
}

// spread reads at most n records at each place.
func (s *Sampled) spread(src Source, paths []string, n int) error {
	for k, path := range paths {
		var rr recordReader
		for i := range nPlaces {
			// Of many files, it is not always the first in each tenth: in folders, these may all belong to one series.
			if tenth := len(paths) / nPlaces; i*len(paths)/nPlaces+i%max(tenth, 1) != k {
				continue
			}
			part := int64(i * len(paths) % nPlaces)
			if rr == nil {
				var err error
				if rr, err = src.open(path, nil); err != nil {
					return err
				}
				defer rr.close()
			} else if !rr.moveTo(rr.extent() * part / nPlaces) {
				continue
			}
			end := int64(math.MaxInt64)
			if next := part + int64(len(paths)); next < nPlaces {
				end = rr.extent() * next / nPlaces
			}
			records, err := readRecords(rr, n, nPlaces, end)
			if err != nil && err != io.EOF {
				return err
			}
			s.align(src, rr.columns(), records)
			// The place may be inside a record.
			if i := slices.IndexFunc(records, func(r Record) bool { return r.Reason == "" }); i > 0 && part > 0 {
				records = records[i:]
			}
			if len(records) > 0 {
				s.Records = append(s.Records, records)
			}
		}
	}
	return nil
}

// readRecords reads at most n records that begin before end. It stops early after sniffFields or sniffBytes,
// divided by share. The error is io.EOF at the end of the file; the records before an error are returned.
func readRecords(rr recordReader, n, share int, end int64) (records []Record, err error) {
	for fields, size := 0, 0; len(records) < n && fields < sniffFields/share && size < sniffBytes/share; {
		if end < math.MaxInt64 && rr.position() >= end {
			break
		}
		rec, err := rr.next()
		if err != nil {
			return records, err
		}
		records = append(records, rec)
		fields += len(rec.Fields)
		size += rec.size()
	}
	return records, nil
}
