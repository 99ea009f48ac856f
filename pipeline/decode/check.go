package decode

import (
	"fmt"

	"hafvf/connectors"
	"hafvf/internal/message"
	"hafvf/internal/times"
)

// sampleRecords is the number of records per file that CheckFiles reads.
const sampleRecords = 100

// CheckFiles returns an error if the path of a file lacks a part of the key. Then it checks the first records of each
// file. It returns an error if their times are numbers that look like spreadsheet days, and the config has no
// time_format. As Unix times they would all fall on one day in 1970.
func CheckFiles(src connectors.Source, p *Parser) error {
	if len(p.path) > 0 {
		if err := connectors.Heads(src, 0, func(path string, _ []connectors.Record) error {
			return p.origin(&connectors.Record{Path: path}).err
		}); err != nil {
			return err
		}
	}
	if len(p.Time) == 0 || p.Untimed || p.TimeFormat != "" {
		return nil
	}
	return connectors.Heads(src, sampleRecords, p.checkTimes)
}

func (p *Parser) checkTimes(path string, records []connectors.Record) error {
	first := ""
	for i := range records {
		text := p.timeText(&records[i])
		switch {
		case Missing(text):
		case !times.MaybeDays(text):
			return nil
		case first == "":
			first = text
		}
	}
	if first == "" {
		return nil
	}
	return fmt.Errorf("the times of %s seem to be days of a spreadsheet, such as %s: set time_format: %s in the source if they are, or time_format: %s if they are seconds since 1970",
		message.Quote(path), first, times.Spreadsheet, times.Unix)
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
