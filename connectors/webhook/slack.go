package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
)

// slackText escapes a text, so that Slack finds no mention and no link in it.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// forSlack turns the record of an alert into a message. An incoming webhook returns no thread ID, so messages of an
// incident cannot share a thread. Their texts contain the ID of the incident instead.
func forSlack(_ Sink, record []byte) ([]byte, error) {
	var r struct{ ID, Kind, Message string }
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("the record is not an alert: %w", err)
	}
	if r.Kind == "incident" {
		r.Message += " (" + r.ID + ")"
	}
	return json.Marshal(map[string]string{"text": slackText.Replace(r.Message)})
}
