package ablate

// A Mechanism is a part of the alarms that can be switched off alone.
type Mechanism struct {
	Name  string // an identifier of Go
	About string
	edits []edit
}

// An edit adds a switch to the source of the product, in a copy. In replacement, off is the switch of the mechanism.
type edit struct {
	file string // in hafvf/
	find string // a text that occurs once in the file
	// replacement contains find unless the switch is inside of it, so that other mechanisms find it too.
	replacement string
}

// after returns an edit that executes a statement after the text if the mechanism is off.
func after(file, find, statement string) edit {
	return edit{file, find, find + "if off {\n" + statement + "\n}\n"}
}

// before returns an edit that executes a statement before the text if the mechanism is off.
func before(file, find, statement string) edit {
	return edit{file, find, "if off {\n" + statement + "\n}\n" + find}
}

const (
	profileFile = "usual/profile.go"
	planFile    = "usual/plan.go"
	tableFile   = "usual/plan_table.go"
	spikesFile  = "usual/spikes.go"
	streakFile  = "usual/streak.go"
	paceFile    = "usual/pace.go"
	budgetFile  = "usual/alarm.go"
	alarmFile   = "keyed/alarm.go"
	episodeFile = "keyed/episode.go"
)

// withoutFilter removes the filter, see keyed.go.txt. It applies to every row.
var withoutFilter = edit{"keyed/estimator.go", "\tc.guard.save(t)\n",
	"\tif WithoutFilter {\n\t\test.decideAlone(m, out, t, input)\n\t\treturn\n\t}\n\tc.guard.save(t)\n"}

// weightViews serves the three views: a view without edits has its switch there.
var weightViews = edit{profileFile, "sum += step.Score", "sum += step.Score * viewWeight(i, p.views)"}

// Mechanisms are the mechanisms of the scores, the plan, the budget and the episodes. Mechanisms that no set can show
// are not among them: holidays and days of the month, which a user sets; silences; the joint score of vectors; the
// numbers of events of shares and averages; alarms by changes, which only streams without a score have.
var Mechanisms = []Mechanism{
	{"Seasons", "the seasons, and all that depends on them", []edit{
		after(alarmFile, "cfg := *config.Alarms\n", "cfg.Seasons = nil")}},
	{"Week", "the harmonics of the week", []edit{
		after(alarmFile, "cfg := *config.Alarms\n", "cfg.Seasons = cfg.Seasons[:min(1, len(cfg.Seasons))]")}},
	{"Precision", "the precision of harmonics of which little has been seen", []edit{
		before("usual/factor.go", "\tn := max(sums[0], 1)\n\tper", "return")}},
	{"LevelView", "the level view in the mean of the scores", []edit{weightViews}},
	{"SeasonView", "the season view in the mean of the scores", nil},
	{"ARView", "the autoregressive view in the mean of the scores", nil},
	{"AR", "the last values as regressors", []edit{
		after(alarmFile, "cfg := *config.Alarms\n", "cfg.Order = 0")}},
	{"AROrder", "the last values but one as regressors", []edit{
		after(alarmFile, "cfg := *config.Alarms\n", "cfg.Order = min(cfg.Order, 1)")}},
	{"Fast", "the score of a single surprise", []edit{
		after(profileFile, "score := max(mean, d.Fast-fastBehind)\n", "score = mean")}},
	{"TailShape", "the learned shape of the tail of a single surprise", []edit{
		after("usual/tail.go", "shape = max(minShape, min(shape, maxShape))\n", "shape = tailShape")}},
	{"Move", "the score of a move, at slow steps", []edit{
		after(profileFile, "moveShare := innovationPart * pace.slow * (1 - share*share)\n", "moveShare = 0")}},
	{"MoveMixture", "the mixture of two tails in the score of a move", []edit{
		before("usual/innovation.go", "\tif odds := s[innovationOdds]; wanted {", "s[innovationOdds] = 0")}},
	{"RepeatLimit", "the limit of scores by the share of repeats", []edit{
		{profileFile, "limit := score\n\tswitch {\n", "limit := score\n\tswitch {\n\tcase off:\n"}}},
	{"Stuck", "the score of equal values in a row", []edit{
		before(profileFile, "\td.Repeated = stuck >=", "stuck = math.Inf(-1)")}},
	{"Step", "the score of a single step, at steps of two to 15 minutes", []edit{
		{profileFile, "if pace.steps && d.Fast >= unsurprising", "if !off && pace.steps && d.Fast >= unsurprising"}}},
	{"RootMeanSquare", "the root mean square at fine steps", []edit{
		{profileFile, "pace.fine && i == p.views-1)", "!off && pace.fine && i == p.views-1)"},
		{profileFile, "if pace.fine { // a root mean square of 1", "if pace.fine && !off { // a root mean square of 1"}}},
	{"CalibratorBound", "the bound of the means that a calibrator learns", []edit{
		{profileFile, "if n >= warmUpWeight {", "if n >= warmUpWeight && !off {"}}},
	{"Bound", "the bound of learned values, and levels that are accepted", []edit{
		{profileFile, "if n >= pace.news {", "if n >= pace.news && !off {"}}},
	{"FadingBound", "the fall of the bound in a long event", []edit{
		{streakFile, "\tbound = minBound + unusual*max(", "\tif !off {\n\t\tbound = minBound + unusual*max("},
		{streakFile, "(1+slowFade*pace.slow)))\n", "(1+slowFade*pace.slow)))\n\t}\n"}}},
	{"Rejected", "the smaller bound of very far values", []edit{
		{streakFile, "if z > rejected {", "if z > rejected && !off {"}}},
	{"SlowBound", "the larger bound of slow streams", []edit{
		after(streakFile, "bound := farBound + slowBound*pace.slow\n", "bound = farBound")}},
	{"Accept", "levels that are accepted", []edit{
		{streakFile, "if *n >= rest && ", "if !off && *n >= rest && "}}},
	{"AcceptedMean", "the reset of the running means at an accepted level", []edit{
		{profileFile, "if p.accepted { //", "if p.accepted && !off { //"}}},
	{"BothSides", "values on both sides are learned whole after 600", []edit{
		{streakFile, "if *n >= lasting {", "if *n >= lasting && !off {"}}},
	{"Followed", "a value that follows from the last ones is not far", []edit{
		{profileFile, "followed = z <= unsurprising\n", "followed = z <= unsurprising && !off\n"}}},
	{"News", "the four days without a bound", []edit{
		before(paceFile, "\tif rest == AutoRest {\n", "p.news = weightOf(tailWarmUp, profileForgetting)")}},
	{"ForgetSurprises", "the reset of the running means at the end of an episode", []edit{
		{profileFile, "if pace.slow == 0 {", "if pace.slow == 0 || off {"}}},

	{"Plan", "the plan", []edit{
		after(alarmFile, "s.plan = d.profile(s).NewPlan(s.profile)\n", "s.plan = nil")}},
	{"Offsets", "the offsets of the plan by the hour of the week", []edit{
		{paceFile, "p.offsets = step >= quarterHour", "p.offsets = !off && step >= quarterHour"}}},
	{"ClearOffsets", "K: an offset that is clear alone", []edit{
		before(tableFile, "\treturn max(repeats, clear) *", "clear = 0")}},
	{"RepeatingTable", "G: offsets of a table that repeats itself", []edit{
		before(tableFile, "\treturn max(repeats, clear) *", "repeats = 0")}},
	{"TwoDays", "the common part of the two days before", []edit{
		{tableFile, "if p.slots == daySlots {\n\t\treturn 0", "if p.slots == daySlots || off {\n\t\treturn 0"}}},
	{"SlowOffsets", "offsets move part of the way to the median", []edit{
		{tableFile, "move = max(minMove, u/(1+u))", "if move = max(minMove, u/(1+u)); off {\n\t\t\t\tmove = 1\n\t\t\t}"}}},
	{"CutVisits", "the growth of last visits that were cut", []edit{
		{tableFile, "&& math.Abs(r) > math.Abs(l) && l*r > 0 {", "&& math.Abs(r) > math.Abs(l) && l*r > 0 && !off {"}}},
	{"FreeDays", "free days other than Saturday and Sunday", []edit{
		{"usual/plan_days.go", "if free == 0 ||", "if off || free == 0 ||"}}},
	{"Fortnights", "alternating weeks", []edit{
		{"usual/plan_weeks.go", "candidate := t.day.plan()", "candidate := !off && t.day.plan()"}}},
	{"Hours", "the spread by hour", []edit{
		{tableFile, "if t.hourShare == 0 ||", "if off || t.hourShare == 0 ||"}}},
	{"RecentSpread", "the recent spread in the bound of learned values", []edit{
		after(planFile, "lately: s.lately.ratio(lateChance)}\n", "v.lately = 1")}},
	{"OneSided", "values on one side are no spread", []edit{
		{planFile, "d *= max(0, 1-side*side)", "if !off {\n\t\t\td *= max(0, 1-side*side)\n\t\t}"}}},
	{"Spikes", "spikes that recur at the same hour", []edit{
		{paceFile, "p.spikes = step < quarterHour", "p.spikes = !off && step < quarterHour"}}},
	{"MissedSpikes", "alarms of missed spikes", []edit{
		{spikesFile, "if !came && !anywhere &&", "if !off && !came && !anywhere &&"}}},
	{"NarrowSpikes", "the narrower standard deviations of new spikes at fine steps", []edit{
		{spikesFile, "if !pace.fine {", "if off || !pace.fine {"}}},
	{"Nightly", "missed spikes in the first two weeks", []edit{
		{spikesFile, "days >= minNightly && present == days", "!off && days >= minNightly && present == days"}}},
	{"Anywhere", "spikes at many hours are none", []edit{
		{spikesFile, "{ return set.elsewhere > spikeElsewhere }", "{ return !off && set.elsewhere > spikeElsewhere }"}}},

	{"FirstDays", "the higher threshold of the first four days", []edit{
		{budgetFile, "if n <= p.settlingObs {", "if n <= p.settlingObs && !off {"}}},
	{"HourExtra", "the higher threshold at steps of an hour", []edit{
		{paceFile, "if p.hours && p.slow == 1 {", "if p.hours && p.slow == 1 && !off {"}}},
	{"Debt", "debt raises the threshold", []edit{
		{budgetFile, "\thistory := peaks(s[atPeaks:])\n", "\thistory, slope := peaks(s[atPeaks:]), debtSlope\n\tif off {\n\t\tslope = 0\n\t}\n"},
		{budgetFile, "debt*debtSlope,", "debt*slope,"}}},
	{"Habit", "the threshold by usual peaks", []edit{
		{"usual/peaks.go", "if p.slow == 1 {\n\t\treturn 0\n", "if p.slow == 1 || off {\n\t\treturn 0\n"}}},
	{"Reserve", "the reserve of the budget for gross scores", []edit{
		{budgetFile, "if debt <= headroom-reserve && (q >=", "if (debt <= headroom-reserve || off && debt <= headroom) && (q >="}}},
	{"Gross", "alarms of gross scores from the reserve", []edit{
		{budgetFile, "q >= d.Threshold+gross {", "q >= d.Threshold+gross && !off {"}}},

	{"Episodes", "episodes: each far value may raise an alarm", []edit{
		{episodeFile, "\tif v.Alarm != usual.NoAlarm || v.marked {\n", "\tif !off && (v.Alarm != usual.NoAlarm || v.marked) {\n"}}},
	{"BaselineScore", "the bound of scores by the usual values before the onset", []edit{
		before(episodeFile, "\treturn min(score, -math.Log10(", "return score")}},
	{"Worse", "reports of an open episode that is worse", []edit{
		{episodeFile, "d.farther = ep.open &&", "d.farther = !off && ep.open &&"}}},
	{"MovedOn", "alarms of an ended episode whose values move on", []edit{
		{episodeFile, "|| !ep.open && reported && ep.level", "|| !off && !ep.open && reported && ep.level"}}},
	{"Covered", "the return after an episode is no alarm", []edit{
		{episodeFile, "d.covered = !ep.open &&", "d.covered = !off && !ep.open &&"}}},
	{"InARow", "the values in a row that show an episode to be worse", []edit{
		{paceFile, "{ return p.inARow }", "{\n\tif off {\n\t\treturn 1\n\t}\n\treturn p.inARow\n}"}}},
	{"Restore", "the profile from before an episode that has moved it", []edit{
		{episodeFile, "if ep.profile != nil && back &&", "if !off && ep.profile != nil && back &&"}}},
	{"RestoreOnce", "an episode soon after another one is learned", []edit{
		{episodeFile, "if s.sinceRestored == 0 {\n\t\tb.profile", "if off || s.sinceRestored == 0 {\n\t\tb.profile"},
		{episodeFile, "ep.profile == nil && s.sinceRestored == 0 {", "ep.profile == nil && (off || s.sinceRestored == 0) {"}}},
	{"RestoreMean", "the restored profile of an episode that has moved the usual value only", []edit{
		{episodeFile, "|| !s.pace.Fine() && math.Abs(", "|| !off && !s.pace.Fine() && math.Abs("}}},
	{"ResetSpread", "the reset of the recent spread after an episode", []edit{
		{episodeFile, "s.plan.ResetRecentSpread()", "if !off {\n\t\t\ts.plan.ResetRecentSpread()\n\t\t}"}}},
	{"EarlierSeasons", "the seasons from before an episode that has widened the spread", []edit{
		{episodeFile, "if b.profile != nil && b.spreadGrew(d, s) {", "if !off && b.profile != nil && b.spreadGrew(d, s) {"}}},
	{"Swing", "the limit of the seasons that move a baseline", []edit{
		before(episodeFile, "\t\td.deviations[i] = max(", "moved = s.standard[2*i+1] * season[i]")}},
	{"ShortEpisodes", "the end of a short episode before half a rest", []edit{
		{episodeFile, "\tif !math.IsNaN(score) {\n\t\tenough", "\tif !math.IsNaN(score) && !off {\n\t\tenough"}}},
	{"AcceptEnds", "the end of an episode at an accepted level", []edit{
		{episodeFile, "accepted = d.accepted &&", "accepted = !off && d.accepted &&"}}},
	{"Rounding", "the spread of values that are rounded to a unit", []edit{
		{alarmFile, "if d.measured {", "if d.measured && !off {"}}},
}
