package pipeline

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/settings"
	"hafvf/transforms"
)

// A quietWatch applies the quiet times of files to a run, and reads the files again when they change.
type quietWatch struct {
	run        *run
	filter     keyed.Config
	configured []keyed.QuietTime
	files      []watchedFile
	polled     time.Time
	requested  []byte            // last requested times, as settings.AppendQuiet writes them
	times      []keyed.QuietTime // of files, in effect; they change while the run waits for a commit
	shared     transforms.QuietTimes
}

// A watchedFile is a file of quiet times that may change.
type watchedFile struct {
	settings.QuietFile
	failed bool // the read error has been logged
}

// quietPoll is the time between two checks of a file. Tests set a shorter time.
var quietPoll = time.Second

// watchQuiet starts a run with the quiet times in its stored states, and requests the current ones of the files. It
// does nothing if neither has any.
func (r *run) watchQuiet(g *Graph) {
	f, filters := g.transform.(filtering)
	if !filters {
		return
	}
	q := &quietWatch{run: r, filter: f.cfg, configured: g.quietTimes}
	for _, file := range g.quietFiles {
		q.files = append(q.files, watchedFile{QuietFile: file})
	}
	stored, err := r.account.Restore(statestore.QuietKey)
	times, bad := settings.ParseQuiet(stored)
	if err == nil && bad != nil {
		err = bad[0]
	}
	if err != nil {
		r.log.Warn("cannot read the stored quiet times: using those of the files", "reason", err.Error())
		stored, times = []byte("none"), nil
	}
	if stored == nil && q.files == nil {
		return
	}
	q.requested = stored
	q.apply(times)
	account.WithValue(r.account, "", &q.shared)
	q.requestTimes()
	if r.history == nil {
		r.quiet = q
	}
}

// apply makes the filters use the quiet times of files and of the config.
func (q *quietWatch) apply(times []keyed.QuietTime) {
	q.times = times
	combined := slices.Concat(q.configured, times)
	q.shared.Store(&combined)
}

// poll reads files that have changed, at most once per quietPoll. It does nothing if q is nil.
func (q *quietWatch) poll() {
	if q == nil || time.Since(q.polled) < quietPoll {
		return
	}
	q.polled = time.Now()
	for i := range q.files {
		q.files[i].read(q.run.log)
	}
	q.requestTimes()
}

// read reads the file if it has changed. It does not read a pipe again.
func (f *watchedFile) read(log *slog.Logger) {
	info, err := os.Stat(f.Path)
	if err == nil && (!info.Mode().IsRegular() || f.Info != nil && os.SameFile(info, f.Info) && info.ModTime().Equal(f.Info.ModTime()) && info.Size() == f.Info.Size()) {
		return
	}
	bad, err := f.Read()
	if err != nil {
		if !f.failed {
			log.Warn("cannot read quiet times: keeping the entries read before", "file", f.Path, "reason", message.Cause(err).Error())
		}
		f.failed = true
		return
	}
	for i, err := range bad {
		const logged = 10
		if i == logged {
			log.Warn("more lines are not quiet times", "file", f.Path, "lines", len(bad)-logged)
			break
		}
		log.Warn("line is not a quiet time: the other lines apply", "file", f.Path, "line", err.Error())
	}
	f.failed = false
}

// requestTimes requests the current quiet times of the files. They apply from the next commit on.
func (q *quietWatch) requestTimes() {
	var times []keyed.QuietTime
	var names []string
	for _, f := range q.files {
		times, names = append(times, f.Times...), append(names, f.Path)
	}
	value := settings.AppendQuiet(nil, times)
	if bytes.Equal(value, q.requested) {
		return
	}
	q.requested = value
	q.run.account.SetRuntimeSetting(statestore.QuietKey, value, func() {
		observations, keys := q.learned(times)
		q.apply(times)
		q.run.log.Info("quiet times of files applied", "files", message.List(names), "entries", len(times))
		if keys > 0 {
			q.run.log.Warn("quiet times cover observations that are already learned", "files", message.List(names), "observations", fmt.Sprint("about ", observations), "keys", keys)
		}
	})
}

// learned estimates how many observations of how many keys were already learned, although they fall into quiet times
// that are not yet in effect.
func (q *quietWatch) learned(times []keyed.QuietTime) (observations int64, keys int) {
	added := slices.DeleteFunc(slices.Clone(times), func(t keyed.QuietTime) bool {
		return slices.ContainsFunc(q.times, func(o keyed.QuietTime) bool {
			return t.Match == o.Match && t.From.Equal(o.From) && t.To.Equal(o.To)
		})
	})
	cfg := q.filter
	cfg.Quiet = *q.shared.Load()
	est, err := keyed.NewEstimator(cfg)
	if err != nil { // the filters would have reported it
		return 0, 0
	}
	for key, b := range q.run.memory.All() {
		if !slices.ContainsFunc(added, func(t keyed.QuietTime) bool { return domain.Matches(t.Match, key) }) {
			continue
		}
		if n, err := est.QuietOverlap(key, b, added); err == nil && n > 0 {
			observations, keys = observations+n, keys+1
		}
	}
	return observations, keys
}
