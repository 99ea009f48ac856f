package decode

import (
	"cmp"
	"fmt"

	"hafvf/connectors"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/internal/times"
)

// sampleRecords is the number of records per file that CheckFiles reads.
const sampleRecords = 100

// CheckFiles checks the files of a source. It returns an error if the path of a file lacks a part of the key, or if the
// times of its first records are numbers that look like spreadsheet days or years, and the config has no time_format. As
// Unix times they would all fall on one day in 1970. For other small numbers it returns a remark. format is the
// time_format of the config or, without one, times.Unix if most first times of each file are Unix times: a later number
// with the digits of a date is then a Unix time too.
func CheckFiles(src connectors.Source, p *Parser) (format, remark string, err error) {
	untimed := len(p.Time) == 0 || p.Untimed || p.TimeFormat != ""
	if untimed && len(p.path) == 0 {
		return p.TimeFormat, "", nil
	}
	files, unix := 0, 0
	err = connectors.Heads(src, sampleRecords, func(path string, records []connectors.Record) error {
		if err := p.origin(&connectors.Record{Path: path}).err; err != nil || untimed {
			return err
		}
		files++
		n, texts := 0, make([]string, len(records))
		for i := range records {
			text := p.timeText(&records[i])
			if times.IsUnix(text) {
				n++
			}
			if !domain.Missing(text) {
				texts[i] = text
			}
		}
		if 2*n > len(records) {
			unix++
		}
		doubt, first := times.DoubtOf(texts)
		seem := fmt.Sprintf("the times of %s seem to be", message.Quote(path))
		switch doubt {
		case times.Days:
			return fmt.Errorf("%s days of a spreadsheet, such as %s: set time_format: %s in the source if they are, or time_format: %s if they are seconds since 1970",
				seem, first, times.Spreadsheet, times.Unix)
		case times.Years:
			return fmt.Errorf("%s years, such as %s: set time_format: %q in the source if they are, or time_format: %s if they are seconds since 1970; trial numbers need order: arrival and no time",
				seem, first, "%Y", times.Unix)
		case times.Small:
			remark = cmp.Or(remark, fmt.Sprintf("the times of %s are small numbers, such as %s, and are read as seconds since 1970: set time_format: %s in the source if they are; trial numbers need order: arrival and no time",
				message.Quote(path), first, times.Unix))
		}
		return nil
	})
	if format = p.TimeFormat; files > 0 && unix == files {
		format = times.Unix
	}
	return format, remark, err
}

// timeText returns the text of a record's time, or an empty text if it cannot be found.
func (p *Parser) timeText(r *connectors.Record) string {
	switch {
	case r.Reason != "":
		return ""
	case r.Fields != nil:
		return p.RowTime(r.Fields)
	}
	fields := make([][]byte, len(p.names))
	if err := p.scan(r.Raw, fields); err != nil {
		return ""
	}
	if text, ok, _ := p.joinedTime(fields); ok {
		return text
	}
	raw := fields[p.TimeAt()]
	if raw == nil {
		return ""
	}
	text, _ := scalarText(raw)
	return text
}
