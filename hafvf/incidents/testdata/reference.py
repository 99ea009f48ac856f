"""A second implementation of hafvf/incidents, written from its package comment, and the traces that both agree on.

python3 reference.py writes golden_*.json beside itself. It is slow and plain: every count goes over all recent alarms.
Times are whole milliseconds inside, and seconds in the traces.
"""
import heapq
import json
import math
import os
import random
import statistics

LADDER = (1, 2, 4, 8, 16, 32)  # windows, in steps
LONGEST, NEARBY, SPREADS = 32, 8, 2  # steps
HOUR, DAY = 3600_000, 86400_000
WEEK, MEMORY = 7 * DAY, 28 * DAY
SHAPE, HEADROOM, REPAID, QUESTIONS = 3.0, 8.0, 7.0, 7
LARGE, LARGER, BACKGROUND = 4, 2, 64  # times the median and the member, alarms


def surprise(c, mean, shape):
    """-log10 P(N >= c) of a negative binomial N with this mean and shape."""
    if c <= mean:
        return 0.0
    x = mean / (shape + mean)
    first = math.lgamma(shape + c) - math.lgamma(shape) - math.lgamma(c + 1) + shape * math.log1p(-x) + c * math.log(x)
    total, term, k = 1.0, 1.0, c
    while term > 1e-13 * total:
        term *= (shape + k) / (k + 1) * x
        total += term
        k += 1
    return max(0.0, -(first + math.log(total)) / math.log(10))


def median(sizes):
    """The median of sizes; 0 without sizes."""
    return statistics.median(sizes) if sizes else 0.0


class Group:
    def __init__(self, name, around):
        self.name, self.around = name, around
        self.since = self.at = 0
        self.allowed, self.keys = 0.0, set()
        self.n = [0.0] * 24  # alarms outside of incidents by hour
        self.recent = []  # alarms of the last 32 steps

    def decay(self, t):
        if t > self.at:
            self.n = [v * math.exp((self.at - t) / MEMORY) for v in self.n]
            self.at = t

    def distinct(self, since):
        """The number of keys with an alarm after a time. Reports of worse episodes do not count."""
        return len({a.key for a in self.recent if a.at > since and not a.worse()})


class Alarm:
    def __init__(self, time, id, key, kind, score, size=0.0, episode=None):
        self.time, self.id, self.key, self.kind, self.score, self.size, self.episode = time, id, key, kind, score, abs(size), episode
        self.incident, self.p, self.decided, self.at = None, 0.0, False, time

    def worse(self):
        """Whether it reports that the episode of an earlier alarm is worse."""
        return self.episode not in (None, self.id)

    def order(self):
        return self.time, self.id, self.key, self.kind

    def __lt__(self, other):
        return self.order() < other.order()


class Member:
    def __init__(self, alarm):
        self.alarm, self.score, self.size = alarm, alarm.score, alarm.size


class Incident:
    page = False  # it is one, or was
    paged = paged_at = 0  # members at the last page, and its time
    wider = False  # a wider group was a page since the members doubled
    into = None


class Fleet:
    def __init__(self, by=(), budget=WEEK, separators="/:", step=60_000):
        self.by, self.budget, self.separators, self.step = sorted(by), budget, separators, step
        self.groups, self.paths, self.alone = {}, {}, {}
        self.waiting, self.seen, self.open, self.past = [], set(), [], []
        self.debt, self.at, self.named, self.events = 0.0, None, 0, []

    # Groups.

    def places(self, key):
        """The groups of a key with those directly around each, the fleet first."""
        if not self.by:
            names = [""] + [key[:i] for i, c in enumerate(key) if i and c in self.separators]
            return [(n, names[max(i - 1, 0):i]) for i, n in enumerate(names)]
        pairs = [p for p in key[key.index("{") + 1:-1].split(",")]
        own = [p for label in self.by for p in pairs if p.startswith(label + "=")]
        both = [(own[j] + "," + own[i], [own[j], own[i]]) for i in range(len(own)) for j in range(i)]
        return [("", [])] + [(n, [""]) for n in own] + both

    def register(self, key, t, key_budget):
        if key in self.paths:
            return
        for name, around in self.places(key):
            g = self.groups.setdefault(name, Group(name, around))
            if not g.keys:
                g.since = g.at = t
            g.allowed += 1000 / key_budget
            g.keys.add(key)
        self.paths[key] = [self.groups[name] for name, _ in self.places(key)]
        self.alone[key] = []

    def covers(self, whole, part):
        if self.by:
            return self.groups[whole].keys >= self.groups[part].keys
        return whole in ("", part) or part.startswith(whole) and part[len(whole)] in self.separators

    def within(self, part, whole):
        """A part with all keys of the whole is the whole by another name."""
        return self.groups[part].keys != self.groups[whole].keys and self.covers(whole, part)

    def common(self, a, b):
        """The smallest group that has both."""
        if self.by:
            names = [n for n in [a, b, ""] + (a + "," + b).split(",") if self.covers(n, a) and self.covers(n, b)]
            return min(names, key=lambda n: (len(self.groups[n].keys), n))
        return max((n for n in self.groups if self.covers(n, a) and self.covers(n, b)), key=len)

    def asked(self, key):
        """The groups that count: by labels of three keys at least, and not of the same keys as one before."""
        path = self.paths[key]
        return [g for i, g in enumerate(path)
                if not self.by or (i == 0 or len(g.keys) >= 3) and all(o.keys != g.keys for o in path[:i])]

    # Rates.

    def rates(self, key, t):
        """The rate by second and its shape of each group of a key."""
        out, q, begin = {}, math.exp(-DAY / MEMORY), t - t % HOUR
        for g in self.paths[key]:
            g.decay(t)
            n, prior = g.n[t % DAY // HOUR], g.allowed
            if g.around:
                p = min((self.groups[name] for name in g.around), key=lambda p: len(p.keys))
                prior *= out[p.name][0] / p.allowed
            days = max(0, (begin - g.since) // DAY)
            exposure = (HOUR * q * (1 - q**days) / (1 - q) + t - max(begin, g.since)) / 1000
            out[g.name] = (1 + n) / (1 / prior + exposure), min(1 + n, SHAPE)
        return out

    def fleet_rate(self):
        g = self.groups[""]
        return (1 + sum(g.n)) / (1 / g.allowed - MEMORY / 1000 * math.expm1(-max(0, self.at - g.since) / MEMORY))

    def count(self, key, t, weight):
        for g in self.paths[key]:
            g.decay(t)
            g.n[t % DAY // HOUR] = max(0.0, g.n[t % DAY // HOUR] + weight)

    def count_alone(self, a, t):
        self.count(a.key, t, 1)
        self.alone[a.key].append(t)

    # The stream.

    def add(self, a):
        if a.order()[1:] not in self.seen:
            self.seen.add(a.order()[1:])
            heapq.heappush(self.waiting, a)

    def advance(self, watermark):
        while self.waiting and self.waiting[0].time <= watermark:
            time = self.waiting[0].time
            moment = []
            while self.waiting and self.waiting[0].time == time:
                moment.append(heapq.heappop(self.waiting))
            t = time if self.at is None else max(time, self.at)  # late alarms are taken now
            self.close(t)
            for a in moment:
                a.at = t
                self.register(a.key, time, WEEK)
                if t - time > NEARBY * self.step:  # too late
                    if a.worse():
                        self.worsen(a)
                    else:
                        self.count_alone(a, time)
            self.take(t, [a for a in moment if t - time <= NEARBY * self.step])
        self.close(watermark)
        events, self.events = self.events, []
        return events

    def take(self, t, moment):
        if not moment:
            return
        if self.at is not None:
            self.debt = max(0.0, self.debt - REPAID * (t - self.at) / self.budget)
        self.at = t
        for a in moment:
            for g in self.paths[a.key]:
                g.recent = [b for b in g.recent if b.at > t - LONGEST * self.step] + [a]
        self.decide(moment, True)
        self.decide(moment, False)
        for a in moment:
            a.decided = True

    def decide(self, moment, joining):
        """Decides on those that may join an incident, or on all the others."""
        while True:
            answers = []
            for a in moment:
                if a.incident is None:
                    rates = self.rates(a.key, a.at)
                    inc, p = self.joinable(a, rates)
                    if inc or not joining:
                        answers.append((self.ask(a, inc, rates), a, inc, p))
            found = [x for x in answers if x[0] and x[0]["score"] >= x[0]["threshold"]]
            if not found:
                break
            answer, a, inc, _ = max(found, key=lambda x: (x[0]["apart"], x[0]["score"] - x[0]["threshold"]))  # the first of equals
            self.found(a.at, inc, **answer)
        for _, a, inc, p in answers:
            if a.worse() and not inc:
                self.worsen(a)
                continue
            if a.worse():
                self.leave(a)
            if inc is None:
                self.count_alone(a, a.at)
                continue
            page = self.join(inc, a, p)
            due, again = self.again(inc, False)
            if page or due or len(inc.members) >= 1.5 * inc.told:
                self.tell("update", inc, a.at, page or again)

    def joinable(self, a, rates):
        if a.worse():
            return self.leaves_for(a), 1.0
        for g in sorted(reversed(self.paths[a.key]), key=lambda g: len(g.keys)):
            for inc in self.open:
                if inc.group == g.name:
                    w = max(inc.window, NEARBY * self.step)
                    others = g.distinct(a.at - w) - 1
                    chance = rates[g.name][0] * w / 1000
                    if others > 0 and 1 - chance / others >= 0.5:
                        return inc, 1 - chance / others
        return None, 0.0

    def ask(self, a, inc, rates):
        """The most surprising answer in the groups of an alarm, with the threshold. Alarms that stand out come first."""
        if self.debt > HEADROOM:
            return None
        alarms, groups = max(1.0, self.fleet_rate() * self.budget / 1000), self.asked(a.key)
        if inc:
            alarms += self.groups[inc.group].distinct(inc.opened - self.step)
        threshold = math.log10(QUESTIONS * len(groups) * alarms) + self.debt
        best = max((x for g in groups for x in self.ask_apart(a, g, *rates[g.name])), key=lambda x: x["score"], default=None)
        if best and best["score"] >= threshold:
            return dict(best, threshold=threshold)
        if a.worse() or inc and a.at <= inc.opened + SPREADS * self.step:
            return None
        best = max((x for g in groups if not inc or self.within(g.name, inc.group) for x in self.ask_in(a, g, *rates[g.name])),
                   key=lambda x: x["score"], default=None)
        return best and dict(best, threshold=threshold)

    def ask_in(self, a, g, rate, shape):
        """The answers in a group by window."""
        around = self.around(g)
        for steps in LADDER[:-1] if around else LADDER:
            w = steps * self.step
            c = len({b.key for b in g.recent if b.at > a.at - w and self.unexplained(b, g.name)})
            r = rate * w / 1000, shape
            if around:
                r = max(r, self.expected(g, around, a.at, w), key=lambda r: r[0])
            if c > 1:
                yield dict(score=surprise(c - 1, *r), group=g.name, window=w, mean=r[0], c=c, apart=False)

    def ask_apart(self, a, g, rate, shape):
        """The answers about alarms that stand out, if the alarm is one."""
        around, whole, background, enough = self.background(g, a.at)
        if len(whole.keys) == len(g.keys) or any(self.covers(g.name, inc.group) for inc in self.open):
            return
        if not self.stands_out(a, around, enough):
            return
        for steps in LADDER[:-1]:
            w = steps * self.step
            since = max(a.at - w, around.opened + self.step) if around else a.at - w
            large = {b.key for b in whole.recent if b.at > a.at - w and self.stands_out(b, around, enough)}
            c, elsewhere, mean, asking = len(large & g.keys), len(large - g.keys), 0.0, 1.0
            if around:
                before = sum(b.size >= enough and b.at <= since for b in background)
                asking = (1 + elsewhere + before) / (2 + elsewhere + len(background))
                mean = asking * (1 + whole.distinct(since) - g.distinct(since))
            share = (elsewhere + mean) * len(g.keys) / (len(whole.keys) - len(g.keys))
            r = max((share, min(1 + elsewhere, SHAPE)), (rate * w / 1000, shape), key=lambda r: r[0])
            if c > 1:
                yield dict(score=surprise(c - 1, *r) - math.log10(asking), group=g.name, window=w, mean=r[0], c=c, apart=True)

    def around(self, g):
        """The narrowest open incident around a group."""
        around = None
        for inc in self.open:
            if self.within(g.name, inc.group) and (not around or len(self.groups[inc.group].keys) < len(self.groups[around.group].keys)):
                around = inc
        return around

    def background(self, g, t):
        """The incident around a group, or none, with its group or the fleet, the alarms there before the present step, and
        the size that stands out of them."""
        around = self.around(g)
        whole = self.groups[around.group if around else ""]
        latest = [b for b in whole.recent if b.at <= t - self.step][-BACKGROUND:]
        alarms = [b for b in latest if b.size and (not around or self.explained(b) is around)]
        return around, whole, alarms, LARGE * median([b.size for b in alarms]) or math.inf

    def stands_out(self, b, around, enough):
        """Whether an alarm is large, is in no other incident, and is new to the incident around, or larger than its member."""
        if b.size < enough or self.incident_of(b) not in (None, around):
            return False
        if not around:
            return True
        m = around.members.get(b.key)
        return b.at > around.opened + self.step and (not m or m.alarm is b or b.worse() or b.size >= LARGER * m.size)

    def explained(self, b):
        """The incident of an alarm."""
        inc = b.incident
        while inc and inc.into:
            inc = inc.into
        return inc

    def incident_of(self, b):
        """The incident of an alarm, or of a report without one the incident that has its episode now."""
        inc = self.explained(b)
        if not inc and b.worse():
            return next((i for i in self.open if b.key in i.members and i.members[b.key].alarm.episode == b.episode), None)
        return inc

    def unexplained(self, b, group):
        inc = self.explained(b)
        return not b.worse() and (inc is None or b.at > inc.opened + SPREADS * self.step and self.within(group, inc.group))

    def expected(self, g, around, t, w):
        """What an incident around a group lets expect of it in a window, with its shape."""
        whole = self.groups[around.group]
        if len(whole.keys) == len(g.keys):
            return 0.0, 1.0
        own, m = around.opened + SPREADS * self.step, 0.0
        for longer in (w, 2 * w, 4 * w):
            since = max(t - longer, own)
            m = max(m, (whole.distinct(since) - g.distinct(since)) * w / max(t - since, w))
        share = (w / max(t - own, w) + m) * len(g.keys) / (len(whole.keys) - len(g.keys))
        since = max(t - w, own)
        begin = max(since - w, around.opened - self.step)
        before = (g.distinct(begin) - g.distinct(since)) * (t - since) / (since - begin)
        return max((share, min(1 + m, SHAPE)), (before, min(1 + before, SHAPE)), key=lambda r: r[0])

    # Incidents.

    def found(self, t, joins, score, group, window, mean, c, threshold, apart):
        near, page = [], False
        if apart:
            around, _, _, enough = self.background(self.groups[group], t)

        def chosen(group):
            return [b for b in self.groups[group].recent if b.at > t - window
                    and (self.stands_out(b, around, enough) if apart else self.unexplained(b, group))]
        size = median([b.size for b in chosen(group)])
        for inc in self.open:
            if apart or size and median([m.size for m in inc.members.values()]) >= LARGE * size:
                continue
            both = self.common(group, inc.group)
            if joins and not self.within(both, joins.group):
                continue
            young = t <= inc.opened + NEARBY * self.step
            if t - window <= inc.opened or young and (t - window <= inc.last or both == group):
                near.append(inc)
        if near:
            inc = min(near, key=lambda i: i.opened)
            for other in near:
                group = self.common(group, other.group)
                if other is not inc:
                    self.open.remove(other)
                    for key, m in other.members.items():
                        inc.members.setdefault(key, m)
                    other.into = inc
                    self.events.append(dict(event="merged", id=other.id, into=inc.id, time=t / 1000))
        else:
            inc = Incident()
            self.named += 1
            inc.id, inc.group, inc.opened, inc.threshold, inc.members = f"i{self.named}", group, t, threshold, {}
            inc.last, inc.told = t, 0
            days, inc.usual = self.recurrence(group, t)
            inc.page = days < 2
            self.open.append(inc)
        wider = group != inc.group
        inc.group, inc.window, inc.score, inc.expected = group, window, score, mean
        for b in chosen(group):
            if b.decided or b.worse():
                self.leave(b)
            page = self.join(inc, b, max(0.0, 1 - mean / (c - 1))) or page
        inc.last = t
        if near:
            page = self.again(inc, wider)[1] or page
        elif inc.page and not page:
            self.debt += 1
            inc.paged, inc.paged_at, page = len(inc.members), t, True
        self.tell("update" if near else "opened", inc, t, page)

    def leave(self, b):
        """Takes an alarm out of its incident, or out of those alone."""
        old = self.incident_of(b)
        if not b.worse():
            self.count(b.key, b.at, b.p - 1 if old else -1)
        if not old:
            self.alone[b.key] = [m for m in self.alone[b.key] if m != b.at]
        elif b.key in old.members and (b.worse() or old.members[b.key].alarm is b):
            del old.members[b.key]

    def leaves_for(self, a):
        """The open incident other than that of its episode that a report joins, or none."""
        for g in sorted(reversed(self.paths[a.key]), key=lambda g: len(g.keys)):
            for inc in self.open:
                recent = a.at - inc.last < max(inc.window, NEARBY * self.step)
                if inc.group == g.name and recent and inc is not self.incident_of(a):
                    around, _, _, enough = self.background(g, a.at)
                    if self.stands_out(a, around, enough):
                        return inc
        return None

    def worsen(self, a):
        """Updates the member whose episode is worse."""
        a.incident = self.incident_of(a)
        if a.incident:
            m = a.incident.members[a.key]
            m.score, m.size = max(m.score, a.score), max(m.size, a.size)

    def join(self, inc, a, p):
        """Makes an alarm one of an incident; True if that makes a page of one with a rhythm."""
        a.incident, a.p = inc, p
        if not a.worse():
            self.count(a.key, a.at, 1 - p if a.at <= inc.opened + LONGEST * self.step else 1)
        inc.members.setdefault(a.key, Member(a))
        inc.last = max(inc.last, a.at)
        if inc.page or len(inc.members) <= 2 * inc.usual or self.debt > HEADROOM:
            return False
        self.debt += 1
        inc.page, inc.paged, inc.paged_at = True, len(inc.members), self.at
        return True

    def again(self, inc, wider):
        """Whether a page is due again, and whether the debt allows it."""
        doubled = self.at > inc.paged_at + NEARBY * self.step and len(inc.members) >= 2 * inc.paged
        if self.at <= inc.paged_at + NEARBY * self.step:
            inc.paged = max(inc.paged, len(inc.members))
        if not inc.page or not doubled and (not wider or inc.wider):
            return False, False
        inc.wider, inc.paged, inc.paged_at = not doubled, len(inc.members), self.at
        self.debt += (allowed := self.debt <= HEADROOM)
        return True, allowed

    def close(self, t):
        for inc in sorted((i for i in self.open if t > i.last + LONGEST * self.step), key=lambda i: i.last):
            self.open.remove(inc)
            self.past.append((inc.group, inc.opened, len(inc.members)))
            self.tell("closed", inc, inc.last + LONGEST * self.step, inc.page)

    def recurrence(self, group, t):
        """On how many days the like came at this time, and its most members."""
        best = 0, 0
        for period, most in ((DAY, 7), (WEEK, 4)):
            on = {}
            for g, opened, size in self.past:
                d = (t - opened + period // 2) // period
                if (self.covers(g, group) or self.covers(group, g)) and 1 <= d <= most \
                        and abs(t - opened - d * period) <= HOUR // 2:
                    on[d] = max(size, on.get(d, 0))
            if len(on) > best[0]:
                best = len(on), max(on.values())
        return best

    def tell(self, event, inc, t, page):
        inc.told = len(inc.members)

        def noisy(key):
            return sum(t - WEEK < m <= t - HOUR for m in self.alone[key]) >= 3
        ranked = sorted(inc.members.values(), key=lambda m: (noisy(m.alarm.key), -m.score, m.alarm.time, m.alarm.key))
        self.events.append(dict(event=event, id=inc.id, time=t / 1000, page=page, group=inc.group, score=round(inc.score, 7),
                                threshold=round(inc.threshold, 7), expected=round(inc.expected, 10),
                                members=[[m.alarm.key, m.alarm.time / 1000, m.score, round(m.alarm.p, 7)] for m in ranked]))


# Traces.

def trace(name, keys, alarms, disorder=0, delays=None, repeats=False, by=()):
    """Gives alarms (second, key, score) to a fleet as they arrive. Delays are seconds by number of the alarm. Some traces have
    (second, key, score, size, worse): if worse, the alarm has the episode of the key's previous alarm, and else its own."""
    rng, fleet, events, seen = random.Random(7), Fleet(by), [], 0
    rows, episodes = [], {}
    for i, (t, k, s, *more) in enumerate(sorted(alarms)):
        rows.append(dict(id=f"a{i}", key=k, kind="novelty", time=t, score=s))
        if more:
            size, worse = more
            if not worse or k not in episodes:
                episodes[k] = f"a{i}"
            rows[-1].update(size=size, episode=episodes[k])
    arrivals = [(r["time"] + rng.random() * disorder + (delays or {}).get(i, 0), r) for i, r in enumerate(rows)]
    arrivals += [(at + 60 * rng.random(), r) for at, r in arrivals[::3] if repeats]
    arrived = [r for _, r in sorted(arrivals, key=lambda x: x[0])]
    for k in keys:
        fleet.register(k, 0, WEEK)
    for r in arrived:
        fleet.add(Alarm(round(1000 * r["time"]), r["id"], r["key"], r["kind"], r["score"], r.get("size", 0), r.get("episode")))
        seen = max(seen, round(1000 * r["time"]))
        events += fleet.advance(seen - 1000 * (disorder + 1))
    events += fleet.advance(seen + DAY)
    out = dict(name=name, by=by, keys=keys, step=60, key_budget=WEEK // 1000, lateness=disorder + 1, alarms=arrived, events=events)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"golden_{name}.json"), "w") as f:
        lines = {k: ",\n  ".join(map(json.dumps, v)) for k, v in out.items() if k in ("alarms", "events")}
        f.write("{\n" + ",\n".join(f' "{k}": ' + (f"[\n  {lines[k]}\n ]" if k in lines else json.dumps(v))
                                   for k, v in out.items() if v != ()) + "\n}\n")
    print(name, len(rows), [(e["event"][0] + "P" * e.get("page", 0), e["id"], e.get("group"), len(e.get("members", []))) for e in events])


def noise(keys, begin, days, seed, rate=0.6):
    rng = random.Random(seed)
    n = int(len(keys) * days / 7 * rate)
    return [(begin + rng.randrange(int(days * 1440)) * 60, rng.choice(keys), round(4 + rng.expovariate(2), 2)) for _ in range(n)]


def burst(keys, t, n, seed, steps):
    """n of the keys within some steps, to the millisecond if t is no whole number."""
    rng = random.Random(seed)
    at = (lambda: 60 * rng.randrange(steps)) if t == int(t) else (lambda: round(60 * steps * rng.random(), 3))
    return [(round(t + at(), 3), k, round(4 + rng.expovariate(0.5), 2)) for k in rng.sample(keys, n)]


def main():
    keys = [f"s{i}/r{j}/h{k}:m{m}" for i in range(2) for j in range(4) for k in range(3) for m in range(3)]

    def part(*prefixes):
        return [k for k in keys if k.startswith(prefixes)]
    day = DAY // 1000
    rack = noise(keys, 0, 16, 1) + burst(part("s0/r2/"), 14 * day + 36000, 8, 2, 6)
    trace("rack", keys, rack)
    trace("late_and_repeated", keys, rack, disorder=120, repeats=True, delays={5: 300, 40: 1500, len(rack) - 20: 300, len(rack) - 17: 420})
    begin = 9 * day + 50040
    trace("grows_from_rack_to_site", keys, noise(keys, 0, 12, 3) + burst(part("s1/r1/"), begin, 5, 4, 2)
          + burst(part("s1/r0/", "s1/r2/", "s1/r3/"), begin + 240, 14, 5, 6))
    trace("nightly", keys, noise(keys, 0, 12, 6, 0.3) + [a for d in range(12) for a in burst(part("s0/r2/"), d * day + 7200, 5 if d < 10 else 6, 10 + d, 3)]
          + burst(part("s0/"), 11 * day + 7260, 14, 8, 4) + burst(part("s1/"), 11 * day + 40020, 14, 9, 4))
    trace("merges", keys, noise(keys, 0, 3, 11) + burst(part("s0/r1/"), 2 * day + 0.5, 6, 12, 1) + burst(part("s1/r2/"), 2 * day + 240.5, 6, 13, 1)
          + burst(part("s0/r0/", "s0/r2/", "s0/r3/", "s1/r0/", "s1/r1/", "s1/r3/"), 2 * day + 360.5, 22, 14, 3))
    trace("parts", keys, noise(keys, 0, 3, 21) + burst(part("s0/r0/", "s0/r2/", "s0/r3/"), 2 * day + 0.5, 12, 22, 2)
          + burst(part("s0/r1/"), 2 * day + 1500.5, 8, 50, 12))
    teams = [f"t{i}/h{j}" for i in range(6) for j in range(8)]
    trace("storm_then_outage", teams, noise(teams, 0, 4, 31) + burst(teams, 2 * day, 48, 32, 3) + burst(teams[16:24], 2 * day + 600, 7, 33, 2)
          + burst(teams, 3 * day, 40, 34, 20))
    jobs = [f'up{{job="{j}",n="{n}",rack="r{r}"}}' for j in ("api", "auth", "cart", "mail", "pay", "queue", "search", "web")
            for r in range(6) for n in range(3)]

    def having(*labels, keys=jobs):
        return [k for k in keys if all(label in k for label in labels)]
    trace("labels", jobs, noise(jobs, 0, 5, 41, 0.4) + burst(having('job="auth"'), 2 * day, 9, 42, 3) + burst(having('rack="r3"'), 3 * day, 11, 43, 3)
          + burst(having('job="pay"', 'rack="r4"'), 4 * day, 3, 44, 1), by=("job", "rack"))
    later = 2 * day + 36000
    trace("moment", keys, noise(keys, 0, 3, 51) + burst(part("s0/r1/"), 2 * day, 5, 52, 1) + burst(part("s1/r3/"), 2 * day, 6, 53, 1)
          + burst(part("s0/r0/", "s0/r3/", "s1/r0/"), 2 * day, 3, 54, 1)
          + burst(part("s0/r1/"), later, 7, 56, 1) + burst(part("s0/r3/"), later, 1, 57, 1)
          + burst(part("s1/r3/"), later + 180, 7, 58, 1) + burst(part("s0/r1/"), later + 180, 2, 59, 1) + burst(part("s1/r1/"), later + 180, 1, 60, 1))
    racks = [f'up{{job="{j}",rack="r{r}",zone="{"ab"[r // 4]}"}}' for j in ("api", "auth", "cart", "mail", "pay", "web") for r in range(8)]
    rng = random.Random(25061)
    sizes = {k: rng.lognormvariate(1.6, 0.5) * rng.choice((1, -1)) for k in racks}

    def sized(alarms, times=1, worse=False):
        return [(t, k, s, round(times * sizes[k] * rng.lognormvariate(0, 0.2), 2), worse) for t, k, s in alarms]
    begin = 2 * day + 36000.5
    zone = having('zone="b"', keys=racks)
    trace("stands_out", racks, sized(noise(racks, 0, 2.4, 25062, 1)) + sized(burst(zone, begin, 24, 25063, 2))
          + sized(burst(having('rack="r5"', keys=racks), begin + 120, 6, 25064, 1), 8, True)
          + sized(burst(zone, begin + 60, 6, 25065, 18), 5, True) + sized(burst(zone, begin + 60, 12, 25066, 18))
          + sized(burst(having('rack="r1"', keys=racks), begin + 480, 6, 25067, 3), 6)
          + sized(burst(having('job="pay"', keys=racks), begin + 1200, 8, 25068, 3), 6), by=("job", "rack", "zone"))


if __name__ == "__main__":
    main()
