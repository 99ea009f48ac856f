package records

import (
	"fmt"
	"strings"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/internal/message"
)

// A digest lists alarms outside incidents.
type digest = *incidents.Digest

const (
	digestKind = "digest"
	maxListed  = 20 // maximum number of alarms listed in a digest
)

var digestFields = []field[digest]{
	text("key", "Empty: the digest covers all keys.", func(digest) string { return "" }),
	instant("time", "End of the period.", func(d digest) time.Time { return d.To }),
	text("kind", "digest, as the kind of an alert.", func(digest) string { return digestKind }),
	text("id", "The word digest, with the length and start of the period.", DigestID),
	instant("start", "Start of the period.", func(d digest) time.Time { return d.From }),
	count("alarms", "", "Number of alarms outside incidents.", func(d digest) (int64, bool) { return int64(len(d.Alarms)), true }),
	count("alarmed", "", "Number of keys that raised these alarms.", func(d digest) (int64, bool) { return int64(alarmedKeys(d)), true }),
	list("members", "The alarms with the highest scores, at most 20.", nil, func(d digest) int { return min(len(d.Alarms), maxListed) }, func(d digest, i int) incidents.Alarm { return d.Alarms[i] },
		text("key", "Key of the alarm.", func(a incidents.Alarm) string { return a.Key }),
		instant("time", "Time of the alarm.", func(a incidents.Alarm) time.Time { return a.Time }),
		text("kind", "Kind of the alarm.", func(a incidents.Alarm) string { return a.Kind }),
		text("id", "id of the alarm.", func(a incidents.Alarm) string { return a.ID }),
		number("score", "", "Score of the alarm; null for a silence.", func(a incidents.Alarm) float64 { return a.Score }),
		number("size", "standard deviations", "Size of the alarm; null for a silence.", func(a incidents.Alarm) float64 { return a.Size }),
	),
	text("message", "The digest in a sentence, and a line for each of the alarms with the highest scores, at most 20.", func(d digest) string { return digestMessage(d) + digestLines(d) }),
}

// DigestID returns the id of a digest. It is the same in every run.
func DigestID(d *incidents.Digest) string {
	return fmt.Sprintf("digest %s@%s", message.Duration(d.Every), d.From.Format(time.RFC3339))
}

func alarmedKeys(d digest) int {
	keys := map[string]bool{}
	for _, a := range d.Alarms {
		keys[a.Key] = true
	}
	return len(keys)
}

func digestMessage(d digest) string {
	return fmt.Sprintf("%s of %s belong to no incident (%s from %s). Clearest alarm: %s.", message.Count(len(d.Alarms), "alarm", "alarms"), message.Count(alarmedKeys(d), "key", "keys"),
		message.Span(d.Every), d.From.Format("2006-01-02 15:04"), message.Printable(d.Alarms[0].Key))
}

// digestLines returns the messages of the alarms with the highest scores, one per line.
func digestLines(d digest) string {
	var s strings.Builder
	for _, a := range d.Alarms[:min(len(d.Alarms), maxListed)] {
		if a.Message != "" {
			s.WriteString("\n" + a.Message)
		}
	}
	return s.String()
}

// AppendDigest appends the record of a digest. A JSON object includes the labels. A table row has no list of alarms.
func (l *Layout) AppendDigest(b []byte, form Form, d *incidents.Digest, labels map[string]string) []byte {
	if form == Object {
		return appendLabels(appendRecord(b, form, l, d, digestFields), labels)
	}
	return appendRecord(b, Row, l, rowOf(&incidents.Event{Time: d.To, ID: DigestID(d), Start: d.From, NumMembers: alarmedKeys(d), Message: digestMessage(d)}, digestKind), alertRow)
}
