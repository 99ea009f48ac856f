// Package incidents groups alarms that have one cause into incidents: the alarms occur close together in time, and
// their keys share a prefix or labels. It is a plain loop without Beam. Config has the user's settings, above all the
// Budget of false incidents. All other numbers are constants of the method.
//
//	fleet, err := incidents.New(incidents.Config{})
//	fleet.Register(key, at, step, budget) // every key once, when its warm-up ends
//	fleet.Add(alarm)                      // in any order
//	step := fleet.Advance(watermark)      // events to report, and the incident of each alarm
//
// # Method
//
// The groups of the key a/b:c are its proper prefixes: the whole fleet, whose name is empty, a, and a/b. If Config.By
// names labels, the groups of a series are the fleet, each label with its value, and each pair of two labels. A group
// by labels counts if it has at least three keys, and not the same keys as an earlier group of the series, in the order
// of Config.By. Nothing is scanned between alarms. Instead every alarm asks: at this time, how many other keys have
// alarmed in the last 1, 2, 4, 8, 16 and 32 steps, in each of my groups? Given one point of a Poisson process, the
// others are distributed as they were without it (Mecke's formula), so the distribution by chance is known for each
// question. The most surprising answer names a group and a window together.
//
// With the step δ of the key that alarms, the budgets P of the keys' own alarms, the budget B of incidents and the hour
// h of the day, the rate of a group g under its parent p is
//
//	a_g = Σ 1/P                                       over the keys of g
//	λ_gh = (1 + n_gh) / (a_p/(a_g·λ_ph) + e_gh)       of the fleet with the prior rate a_g
//	r_gh = min(1 + n_gh, 3)
//
// The parent of a prefix is the previous prefix, of a label the fleet, and of a pair the smaller of its two labels.
// n_gh counts the alarms outside incidents in that hour, and e_gh is the time spent in it, both with a memory of four
// weeks. λ is the mean of a Gamma posterior. Its prior has shape 1 and the mean that the parent predicts for g. Its
// shape r is at most 3: a rate may always differ from the learned one by 58 %, for reasons that the hour does not
// explain.
//
// c keys with alarms that no incident explains, including the key that asks, have the score
//
//	s = −log₁₀ P(N ≥ c − 1),   N ~ NB(mean λw, shape r)
//
// The largest score over groups and windows w ∈ δ·{1, 2, …, 32} counts. With the learned rate Λ of the fleet and the
// number L of the key's groups, an incident is found if b ≤ 8 and
//
//	s ≥ log₁₀(7·L·Λ·B) + b
//
// 7·L·Λ·B is the number of questions in a budget of time. There is one question per window, and one more for a moment
// with several alarms: these all count each other, and the one whose answer exceeds its threshold by most is decided
// first. The debt b grows by one with every page, and 7 are repaid in a budget.
//
//   - Join. An alarm joins an open incident that has one of its groups, the one with the fewest keys, under two
//     conditions. At least one other key of the group alarmed in the last w, the window of the incident but at least
//     8δ. And at least half of these m keys are not due to chance: p = 1 − λw/m ≥ ½.
//   - Grow. A finding outside an incident merges with it, at the smallest group that has both, only if both began
//     together: the window of the finding reaches back to the opening or, in the incident's first eight steps, to its
//     last member, or in these steps the group of the finding contains that of the incident. A later finding is a
//     separate incident, and so is one if the median size of its alarms is above 0, and at most a quarter of the median
//     size of the incident's members.
//   - Page again. An update is a page if the group is wider, once before the members double, or if there are twice as
//     many members as eight steps after the last page. It costs as much as every page, and is not a page if b > 8.
//   - Part. An incident does not explain alarms in its parts later than two steps after its opening. Such an alarm asks
//     before it joins, in the groups within the incident's group, over at most 16 steps. The keys that alarmed in the
//     incident are added to ΛB. A finding is a separate incident, whatever the state of the other one. The mean for
//     such a g is the largest of λw; (w/T + m)·k_g/(k − k_g), with shape min(1 + m, 3); and the number of keys of g
//     that alarmed in the previous window, scaled to the same time, with shape min(1 + this number, 3). k and k_g are
//     the numbers of keys of the incident's group and of g. m is the number of keys that alarmed elsewhere in the
//     incident's group in the window, or a half or a quarter of the number in twice or four times the window if that is
//     larger. T is the time since two steps after the opening, at least w. So alarms that spread over the parts of an
//     incident, or continue in one part, are not a separate incident. After a long calm they are, at once.
//   - Stand out. Within a storm, an outage is recognised by its size. The background of g is taken from the 64 latest
//     alarms in the last 32 steps, without the present step, of the group of the open incident around g or, without
//     one, of the fleet: the alarms that have a size and belong to that incident. An alarm stands out if its absolute
//     size is at least four times their median, and if it belongs to no other incident. With an incident around g, it
//     also has to be later than one step after the opening, and its key was not a member before, or its episode became
//     worse, or it is twice as large as the member. Such an alarm asks in all its groups that do not contain an open
//     incident or all keys, over at most 16 steps, and counts only alarms that stand out. Of the keys outside g, l'
//     have such an alarm in the window, and m' have any alarm in it that is later than one step after the opening. Let
//     l be l' plus the alarms of the background before the window that are as large, n be l' plus the number of alarms
//     of the background, and φ = (1 + l)/(2 + n). The mean is the larger of λw and (l' + φ·(1 + m'))·k_g/(k − k_g),
//     with shape min(1 + l', 3), and s is larger by −log₁₀ φ because only this share of the alarms asks. Without an
//     incident around g, φ is 0 in the mean and 1 in the score, and k is the number of all keys. A finding is decided
//     before those of other alarms, and is a separate incident with only these alarms. It costs as much as every page.
//   - Learn. n_gh counts an alarm outside incidents by 1, a member by 1 − p, and a member of an incident that is older
//     than 32 steps by 1: a lasting state becomes usual.
//   - Close. An incident closes after 32 steps without a new member.
//   - Rhythm. If the same group, a group around it or a group within it had an incident within half an hour of this
//     time of the day, on two of the last seven days or on two of the same weekdays of the last four weeks, the
//     incident is reported but is not a page. It becomes a page if it has more than twice as many keys as then.
//   - Rank. Members are ranked by score, with noisy ones last. A member is noisy if it had three alarms outside
//     incidents in the week before the event, without its last hour. The first in time of the others is named first.
//
// # Details
//
//   - A window w before t has the alarms later than t − w. For each key its latest alarm counts.
//   - e_gh has the present hour up to now, and the same hour of each whole day since the group began, each weighted by
//     its age. Λ is computed like λ, over all hours and with a_fleet as its prior. ΛB is at least 1.
//   - Among the alarms of a moment, those that may join an incident are decided first. If several incidents of an
//     alarm's groups have the fewest keys, the one with the last group counts.
//   - A new incident takes all unexplained alarms in its group and window, with p = 1 − λw/(c − 1). They leave n_gh and
//     other incidents. A member is the first alarm of its key. A report that its episode is worse updates it, and is
//     not counted as an alarm. It belongs to another incident only if a finding takes it, or if it stands out of the
//     background of an open incident that has one of its groups and had a member in the last w of Join. Its key then
//     leaves the former incident. If incidents merge, the oldest continues.
//   - A group with the same keys as another is not a part of it. The incident around g is the open one with the fewest
//     keys.
//   - For parts, m and the previous alarms of g count each key by its latest alarm. m starts two steps after the
//     opening. The previous window ends where the window of the question starts, or two steps after the opening if that
//     is later. It reaches back at most to one step before the opening. The keys that are added to ΛB alarmed in the
//     last 32 steps, at the earliest one step before the opening.
//   - The eight steps after a page are steps of the slowest member. Members that arrive in them belong to the number
//     that has to double.
//   - The rhythm is weekly only if more weeks than days had a similar incident. The number of keys to compare with is
//     the maximum on these days.
//
// # Guarantees
//
//  1. In any time T from the start there are at most 7T/B + 9 pages, for any alarms. Before each page b ≤ 8, each page
//     adds 1, and time removes at most 7/B.
//  2. If alarms without a common cause are Poisson, or mixed as the predictive distribution says, there is at most one
//     false incident in a budget on average, by the union bound.
//  3. Repeats within a day, and any order of arrival before the watermark, change nothing. Alarms are processed in the
//     order of time, ID, key and kind.
//
// The second guarantee does not cover bursts that all keys share, if the hour of the day does not explain them.
//
// # Limits
//
// Groups are prefixes or labels; calls between services are unknown. The group of an incident has the best score, and
// is never narrowed. The first nights of a nightly job are pages. A cause that reaches one group after another, each of
// them completely at once, may cause more than two pages. If the parts of one cause differ in size by a factor of four,
// the larger part may be a separate page.
package incidents
