package decode

import (
	"fmt"

	"hafvf/connectors"
	"hafvf/internal/message"
	"hafvf/internal/times"
)

// sampleRecords is how many records CheckTimes looks at in a file.
const sampleRecords = 100

// CheckTimes looks at the first records of each file of a source. The error says that their
// times are numbers that seem to be days of a spreadsheet, and that the config does not say what
// they are. As Unix times they would all be moments of one day in 1970.
func CheckTimes(src connectors.Source, p *Parser) error {
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
	return fmt.Errorf("the times of %s seem to be days of a spreadsheet, such as %s: say time_format: %s in the source if they are, and time_format: %s if they are seconds since 1970",
		message.Quote(path), first, times.Spreadsheet, times.Unix)
}

// timeText is the text of a record's time, empty if there is none that can be told.
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
