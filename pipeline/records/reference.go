package records

import (
	"fmt"
	"strings"
)

// A Kind is a kind of record.
type Kind struct {
	Name   string
	Doc    string
	Fields []Field
}

// Kinds are the kinds of records that a pipeline writes, each with its fields in
// their order.
func Kinds() []Kind {
	return []Kind{
		{"Estimate", "One per observation, from transform: filter.", describe("", estimates)},
		{"Alert", "One per alarm, with detect or silence; and per detection that alerts.beliefs names.", describe("", alerts)},
		{"Incident", "One when an incident opens, grows, merges or closes, with incidents. In CSV and Parquet an incident is a row of the alerts: its group is the key, and the columns state, page, end, keys, alarmed and expected are its own.", describe("", incidentFields)},
		{"Digest", "One in the time that alerts.digest says, if there were alarms in no incident. In CSV and Parquet it is a row of the alerts, without members.", describe("", digestFields)},
		{"Smoothed estimate", "One per observation of a session, from transform: smooth.", describe("", smootheds)},
		{"Reject", "One per record that cannot be used, in the dead letter.", describe("", rejects)},
	}
}

// Markdown lists the records as a part of the document CONFIG.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`
# Records

What a run writes: one JSON object per record. In CSV and Parquet a path is the name of a column, with the index in
place of ` + "`[]`" + `. Numbers that are infinite or undefined are null. Times are RFC 3339 in UTC. "mean and sd" is an object of both;
of vectors each is a list. A mean that does not exist is null, and so is an sd that is infinite.
Fields marked "full" are those of ` + "`records: full`" + ` alone.
`)
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", k.Name, k.Doc)
		for _, f := range rows(k.Fields) {
			name, takes := "`"+f.Path+"`", f.Takes
			if f.Full {
				name += " (full)"
			}
			if f.Unit != "" {
				takes += ", " + f.Unit
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, takes, strings.ReplaceAll(f.Doc, "|", `\|`))
		}
	}
	return b.String()
}

// rows has one field for a mean and an sd, and one for what several objects have alike.
func rows(fields []Field) (all []Field) {
	at := map[Field]int{} // by what they have alike
	sds := map[string]bool{}
	for _, f := range fields {
		if f.Doc == docSD {
			sds[strings.TrimSuffix(f.Path, ".sd")] = true
		}
	}
	for _, f := range fields {
		of, name, below := strings.Cut(f.Path, ".")
		alike := f
		alike.Path = name
		i, known := at[alike]
		switch {
		case f.Doc == docMean || f.Doc == docSD:
		case below && known:
			first, _, _ := strings.Cut(all[i].Path, ".")
			all[i].Path = fmt.Sprintf("{%s, %s}.%s", first, of, name)
		default:
			if sds[f.Path] {
				f.Takes = "mean and sd"
			}
			if all = append(all, f); below {
				at[alike] = len(all) - 1
			}
		}
	}
	return all
}
