package records

// A Kind is a kind of record.
type Kind struct {
	Name   string
	Doc    string
	Fields []Field
}

// Kinds returns the kinds of records that a pipeline writes, with their fields in order.
func Kinds() []Kind {
	return []Kind{
		{"Estimate", "One per observation, from transform: filter.", describe("", estimates)},
		{"Alert", "One per alarm, with detect or silence; and per detection that alerts.beliefs names.", describe("", alerts)},
		{"Incident", "One when an incident opens, grows, merges or closes, with incidents. In CSV and Parquet it is a row of the alerts: its group is the key, and the columns state, page, end, keys, alarmed and expected are its own.", append(describe("", incidentFields), Field{Path: "labels", Takes: "object", Doc: "Labels that all its keys share, those of its group, and those of the receiver; in JSON."})},
		{"Digest", "One in the time that alerts.digest says, if there were alarms in no incident. In CSV and Parquet it is a row of the alerts, without members.", describe("", digestFields)},
		{"Smoothed estimate", "One per observation of a session, from transform: smooth.", describe("", smootheds)},
		{"Reject", "One per record that cannot be used, in the dead letter.", describe("", rejects)},
	}
}
