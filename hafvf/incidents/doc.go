// Package incidents makes one incident of alarms that have one cause: they come together in time, and
// their keys have a prefix or labels in common. It is a plain loop without Beam. Two settings are the user's, the Budget of false incidents and the Separators of
// keys. All other numbers are constants of the method.
//
//	fleet, err := incidents.New(incidents.Config{})
//	fleet.Register(key, at, step, budget) // every key once, when its warm-up ends
//	fleet.Add(alarm)                      // in any order
//	step := fleet.Advance(watermark)      // what is told, and which alarms belong where
//
// # Method
//
// The groups of the key a/b:c are its proper prefixes: the whole fleet, whose name is empty, a,
// and a/b. If Config.By names labels, the groups of a series are the fleet, each label with its value, and
// each pair of two. A group by labels counts if it has at least three keys, and not the same keys as another
// of the series before it, in the order of Config.By. Nothing is scanned between
// alarms. Every alarm asks by itself: since I am here, how many other keys have alarmed in the
// last 1, 2, 4, 8, 16 and 32 steps, in each of my groups? Given one point of a Poisson process,
// the others are distributed as they were without it (Mecke's formula), so chance has a known
// answer to each question. The most surprising answer names a group and a window together.
//
// With δ the step of the key that alarms, P the budgets of the keys' own alarms, B that of
// incidents and h the hour of the day, the rate of a group g under its parent p is
//
//	a_g = Σ 1/P                                       over the keys of g
//	λ_gh = (1 + n_gh) / (a_p/(a_g·λ_ph) + e_gh)       of the fleet with the prior rate a_g
//	r_gh = min(1 + n_gh, 3)
//
// The parent of a prefix is the one before it, of a label the fleet, and of a pair the smaller of its two labels.
// n_gh counts the alarms outside of incidents in that hour and e_gh is the time spent in it, both
// forgotten at the scale of four weeks. λ is the mean of a Gamma posterior whose prior of shape 1
// has the mean that the parent expects of g. Its shape r stays at 3 or below: whatever was
// learned, a rate may differ from it by 58 % for reasons that the hour does not explain.
//
// c keys with alarms that no incident explains, the one that asks included, have the score
//
//	s = −log₁₀ P(N ≥ c − 1),   N ~ NB(mean λw, shape r)
//
// of which the largest over groups and windows w ∈ δ·{1, 2, …, 32} counts. With Λ the learned
// rate of the fleet and L the groups of the key, an incident is found where b ≤ 8 and
//
//	s ≥ log₁₀(7·L·Λ·B) + b
//
// 7·L·Λ·B is the number of questions that a budget of time brings, one a window and another for a moment with
// several alarms: these all count each other, and the one whose answer exceeds its threshold by most comes
// first. The debt b grows by one with every page, and 7 are repaid in a budget.
//
//   - Join. An alarm joins the most specific open incident that has one of its groups, if at
//     least one other key of the group alarmed in the last w (that at which the incident was found,
//     at least 8δ), and at least half of these m are not chance: p = 1 − λw/m ≥ ½.
//   - Grow. What is found elsewhere becomes one with an open incident, at the smallest group that has both, only if both
//     began together: its window reaches back to the opening, or, in the first eight steps, to the last
//     member, or it is of a wider group then. What is found later is an incident of its own.
//   - Page again. An update is a page if the group is wider, once before the members double, or if they are
//     twice as many as eight steps after the last page. It costs as every page does, and is none above b = 8.
//   - Part. An incident explains nothing in its parts that comes more than two steps after it has opened. Such an
//     alarm asks before it joins, in the groups within the incident's, over at most 16 steps; ΛB has the keys that
//     alarmed in the incident added. What it finds is an incident of its own, whatever the other one is.
//     The mean that the incident lets expect of g is, if it is larger, (w/T + m)·k_g/(k − k_g), of shape min(1 + m, 3),
//     or what g itself alarmed in the window before, at the same pace, of shape min(1 + that, 3). k and k_g are the
//     keys of the incident's group and of g. m are those that have alarmed elsewhere in the incident's group in the
//     window, or at the same pace in twice or four times the window if that is more. T is the time since two steps
//     after the opening, at least w. So what spreads over the parts of an incident, or goes on in one, is no incident
//     of its own, and what comes when the incident has been calm for long is one at once.
//   - Learn. n_gh counts an alarm outside by 1, a member by 1 − p, and by 1 again once the
//     incident is older than 32 steps. What lasts becomes usual.
//   - Close. After 32 steps without a member.
//   - Rhythm. Where the same group, one around it or one within it had an incident within half an
//     hour of this time of the day on two of the last seven days, or of the last four weeks' like
//     days, it is told and is no page. More than twice as many keys as then are a page after all.
//   - Rank. Members by their scores, the noisy ones last: those with three alarms outside of incidents in the
//     week before the event, without its last hour. The first in time of the others is named first.
//
// # Details
//
//   - A window w before t has the alarms later than t − w, and of a key its latest one counts.
//   - e_gh has the present hour up to now and the same hour of each whole day since the group began, each at the weight of its age.
//     Λ is as λ over all hours, with a_fleet as its prior, and ΛB is at least 1.
//   - Of the alarms of a moment those that may join an incident are decided on first. The most specific group is the last of a key's.
//   - An incident that is found takes all alarms that nothing explains in its group and window, with p = 1 − λw/(c − 1). They leave
//     n_gh and another incident. A member is the first alarm of its key. Of several that become one the oldest goes on.
//   - A group that has all keys of another one is no part of it. The incident around g is the narrowest that is open.
//   - For parts, m and what g alarmed before are of the keys' latest alarms. m begins two steps after the opening, and the window
//     before ends where that of the question begins, or there, and goes back to a step before the opening at most.
//     The keys that ΛB has added are those of the last 32 steps, from a step before the opening.
//   - Eight steps after a page are of the longest step of the members. Members that come within them are those to be doubled.
//   - The rhythm is of weeks only if more of them had the like than days. As many keys as then are the most on one of them.
//
// # Guarantees
//
//  1. In any time T from the start there are at most 7T/B + 9 pages, whatever the alarms are.
//     Before each page b ≤ 8, each adds 1, and time removes 7/B at most.
//  2. Where alarms without a common cause are Poisson, or mixed as the predictive says, there is
//     at most one false incident in a budget on average, by the union bound.
//  3. Repeats of a day, and any order of arrival before the watermark, change nothing. Alarms are taken in
//     the order of time, id, key and kind.
//
// Bursts that all keys share, and that the hour of the day does not explain, are beyond the second.
//
// # Reality
//
// Groups are prefixes or labels; calls between services are unknown. The group of an incident is
// the one with the best score, and is never narrowed. The first nights of a nightly job are pages. A cause that
// comes to one group after the other, all of a group at once, may be more than two pages.
package incidents
