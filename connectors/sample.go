package connectors

import (
	"bytes"
	"io"
	"math"
	"slices"
)

// Head returns the first 256 KiB of a file of text in an encoding, one of Encodings or empty, as UTF-8 with "\n" as the line end. A file that
// goes on behind them ends with a whole line, unless there is just one.
func Head(path, encoding string) ([]byte, error) {
	r, err := openText(path, encoding)
	if err != nil {
		return nil, err
	}
	l := newLines(r, path)
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

// A Sampled is what Sample has read of a source.
type Sampled struct {
	Columns []string // of the first file; nil for JSON
	// Unread are columns of a Parquet file of other types than are read, with these, if the source names none.
	Unread []string
	// Records are those of each place, in the order of the source. At the places behind the first one of
	// a file of text their Position counts from a byte, see Record.After.
	Records [][]Record
	// Whole says that there are no others. Else those of a single place are the first ones, because the rest could
	// not be sought.
	Whole bool
}

// places is how many Sample reads at.
const nPlaces = 10

// Sample reads about n records of a source: all of them if there are no more, else a tenth at each of
// ten places that are spread evenly. Of files that cannot be sought, such as compressed ones and arrays,
// it reads the first n. Wide rows make it read fewer. Of a source that names no columns it reads all.
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

// spread reads at most n records at each place.
func (s *Sampled) spread(src Source, paths []string, n int) error {
	for k, path := range paths {
		var rr recordReader
		for i := range nPlaces {
			if i*len(paths)/nPlaces != k {
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
			// The place may be inside of a record.
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

// take reads at most n records that begin before a position. It ends earlier with a share of what may be
// looked at. With an error, io.EOF at the end of the file, it returns the records before it.
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
