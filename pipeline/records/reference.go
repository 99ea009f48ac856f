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
		{"Alert", "One per alarm, with detect or silence, and one per belief that alerts.beliefs names.", describe("", alerts)},
		{"Incident", "One when an incident opens, grows, merges or closes, with incidents. In CSV and Parquet it is a row of the alerts: its group is the key, and the columns state, page, end, keys, alarmed and expected belong to incidents only.", append(describe("", incidentFields), Field{Path: "labels", Takes: "object", Doc: "Labels that all keys of the incident share, labels of its group, and labels of the receiver; in JSON."})},
		{"Digest", "One per period of alerts.digest, if there were alarms outside incidents. In CSV and Parquet it is a row of the alerts, without members.", describe("", digestFields)},
		{"Smoothed estimate", "One per observation of a session, from transform: smooth.", describe("", smootheds)},
		{"Reject", "One per record that cannot be used, in the dead letter.", describe("", rejects)},
	}
}
