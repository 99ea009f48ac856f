package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
)

// slackText is a text in which Slack finds no mention and no link.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// forSlack turns the record of an alert into a message. An incoming webhook returns no thread that the next
// message of an incident could join: its id stands in their texts.
func forSlack(_ Sink, record []byte) ([]byte, error) {
	var r struct{ ID, Kind, Message string }
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("the record is no alert: %w", err)
	}
	if r.Kind == "incident" {
		r.Message += " (" + r.ID + ")"
	}
	return json.Marshal(map[string]string{"text": slackText.Replace(r.Message)})
}
