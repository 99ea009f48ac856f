package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/outfile"
	"hafvf/cmd/hafvf/output"
	"hafvf/cmd/internal/cli"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/clock"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

func markCommand() *cobra.Command {
	var set []string
	var key, note, outputPath, configPath string
	cmd := &cobra.Command{
		Use:   "mark ALERTS ID false|true|expected",
		Short: "Mark an alarm as false, true or expected",
		Long:  help("mark"),
		Example: `  hafvf mark alerts.jsonl in-0-4711 false --config pump.yaml
  hafvf mark alerts.jsonl pump.csv:812 true --key pump-7 --note "the bearing broke" -o marks.jsonl
  kcat -b localhost -t alerts -e | hafvf mark - in-0-4711 false`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && slices.Contains(records.Marks(), args[1]) {
				return cli.UsageError(fmt.Errorf("the alerts are missing: use hafvf mark ALERTS %s %s, where ALERTS is the file of alerts, or - for lines of alerts on standard input", message.ShellWord(args[0]), args[1]))
			}
			return cobra.ExactArgs(3)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			mark := records.Mark{Mark: args[2], Note: note}
			if cmd.Flags().Changed("key") {
				mark.Key = &key
			}
			var sink *config.Sink
			switch {
			case args[1] == "":
				return cli.UsageError(errors.New("the ID is empty: give the ID of an alert"))
			case !slices.Contains(records.Marks(), mark.Mark):
				return cli.UsageError(fmt.Errorf("unknown mark %q: use %s after the ID", mark.Mark, message.Choice(records.Marks())))
			case outputPath != "" && configPath != "":
				return cli.UsageError(errors.New("use either -o or --config, not both"))
			case outputPath != "":
				sink = &config.Sink{File: &config.File{Path: outputPath}}
			case configPath != "":
				cfg, _, err := cli.Load(configPath, set)
				if err != nil {
					return err
				}
				if sink = cfg.Marks; sink == nil {
					return cli.UsageError(fmt.Errorf("%s has no marks: add marks: {jsonl: {path: marks.jsonl}}, and restart its run", configPath))
				}
			}
			ctx, stop := stoppable(cmd.Context())
			defer stop()
			marks, err := marksOf(ctx, args[0], args[1], mark)
			switch {
			case err != nil:
				return err
			case sink != nil:
				return pipeline.SendMarks(ctx, sink, marks, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			}
			_, err = cmd.OutOrStdout().Write(records.Lines(marks))
			return err
		},
	}
	cli.AddSet(cmd, &set)
	cmd.Flags().StringVar(&key, "key", "", "the `key` of the alarm, if alarms of several keys have this ID")
	cmd.Flags().StringVar(&note, "note", "", "a comment")
	cmd.Flags().StringVarP(&outputPath, "output", "o", "", "append the lines to `FILE`")
	cmd.Flags().StringVar(&configPath, "config", "", "write the lines to the marks of `CONFIG`")
	return cmd
}

// marksOf returns the marks of the alarm with this ID in a file of alerts, or of the members of the incident with this
// ID. mark has their value and note, and a key if only alarms of this key are marked.
func marksOf(ctx context.Context, path, id string, mark records.Mark) (marks []records.Mark, err error) {
	all := &alarmMarks{id: id, mark: mark, byName: map[[2]string]*records.Mark{}}
	err = outfile.ForEach(ctx, path, func(r *output.Record) bool { return r.Kind != nil }, func(r *output.Record) error {
		if r.Alert != nil {
			all.add(r.Alert)
		}
		return nil
	})
	if notRecord, _ := errors.AsType[output.NotRecord](err); err != nil && !notRecord.Cut {
		return nil, err
	}
	var keys []string
	for _, m := range all.list {
		if m.Mark == "" || mark.Key != nil && *mark.Key != *m.Key {
			continue
		}
		if err := m.Check(); err != nil {
			return nil, fmt.Errorf("the alarm cannot be marked: %w", err)
		}
		marks, keys = append(marks, *m), append(keys, message.Quote(*m.Key))
	}
	name := message.Quote(id)
	switch {
	case len(marks) > 1 && !all.incident:
		return nil, cli.UsageError(fmt.Errorf("alarms of %d keys have the id %s: choose with --key one of %s", len(keys), name, strings.Join(keys, ", ")))
	case len(marks) > 0:
		return marks, nil
	case mark.Key != nil:
		name += " and the key " + message.Quote(*mark.Key)
	}
	from := map[bool]string{true: "standard input", false: path}[path == "-"]
	return nil, fmt.Errorf("%s has no alarm and no incident with the id %s: give the id of an alert in it, or the file with this alert", from, name)
}

// alarmMarks are the marks of all alarms in a file of alerts.
type alarmMarks struct {
	id       string // of the alarm or incident to mark
	mark     records.Mark
	incident bool                        // id is of an incident
	list     []*records.Mark             // with an empty Mark for alarms that id does not name
	byName   map[[2]string]*records.Mark // by key and ID
}

// add adds an alert or an incident. It ignores beliefs, and the end of a silence.
func (all *alarmMarks) add(a *output.Alert) {
	ended := a.Kind == keyed.RecoveredAlarm && a.Episode.ID != ""
	switch {
	case a.Kind == incidents.Kind && a.ID == all.id:
		for _, m := range a.Members {
			if m.Episode != "" {
				all.report(&output.Alert{Key: m.Key, ID: m.Episode, Time: m.Time, Size: m.Size, Incident: a.ID})
			}
		}
	case ended, a.IsAlarm():
		all.report(a)
	}
}

// report adds a report of an alarm: the first one, that it is worse, or its end.
func (all *alarmMarks) report(a *output.Alert) {
	name := [2]string{a.Key, cmp.Or(a.Episode.ID, a.ID)}
	m := all.byName[name]
	if m == nil {
		m = &records.Mark{ID: name[1], Key: &name[0], Note: all.mark.Note}
		all.list, all.byName[name] = append(all.list, m), m
	}
	m.Start, m.Time = clock.Earlier(m.Start, cmp.Or(a.Episode.Since, a.Start, a.Time)), clock.Later(m.Time, a.Time)
	if member := all.id == a.Incident; member || all.id == a.ID || all.id == m.ID {
		m.Mark, all.incident = all.mark.Mark, all.incident || member
	}
	if size := float64(a.Size); size*cmp.Or(m.Size, size) > m.Size*m.Size {
		if m.Size, m.Side = size, records.Above; size < 0 {
			m.Side = records.Below
		}
	}
}
