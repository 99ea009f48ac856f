"""Settings as keyword arguments. This file is generated from the table that reads configs; a test compares the two."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict

Duration: TypeAlias = "str | timedelta"


class Aggregate(TypedDict, total=False):
    """Keys of aggregate."""

    every: Duration
    """Length of an interval, 1s to 744h. Intervals begin at multiples of it in the local time of zone: days at midnight, weeks on Mondays."""

    value: Literal["count", "sum", "mean", "min", "max", "last", "median", "p90", "p95", "p99", "rate", "share", "increase"]
    """Value that is computed from the events. count and rate (per second) need no values. median to p99 are within 0.1 percent. share (binomial) sums of and to. increase is the rise of a counter (see modulus); other falls below half are restarts. A rise across empty intervals counts in proportion."""

    of: str
    """share: field of successes, such as errors."""

    to: str
    """share: field of trials, such as requests."""

    per: Duration
    """increase: unit of time, for an increase per time."""

    modulus: float
    """increase: number at which the counter wraps; every fall is then a wrap. By default a fall is a wrap at 2^32 or 2^64 if the rise is then at most three times the largest of the last 20."""

    empty: Literal[0, "missing"]
    """Value of an interval without events. Default: 0 for count, sum and rate, else missing."""

    wait: Duration
    """How long an interval waits after its end for events, in addition to lateness. Default: 0s."""

    zone: str
    """Time zone in which intervals begin. Default: UTC."""


class Detect(TypedDict, total=False):
    """Keys of detect."""

    commit: float
    """Posterior probability from which a change counts as certain. Default: 0.95."""

    min_length: int
    """Minimum length of a new regime. Default: 5."""

    cooldown: Duration
    """A key raises no second alarm within this time. Default: 0s."""

    min_change: float
    """A smaller change or deviation raises no alarm. Default: 0."""

    min_abs: float
    """As min_change, in the values' own units. Default: 0."""

    min_rel: float
    """As min_change, relative to the previous usual value: 0.1 is ten percent. Default: 0."""

    direction: Literal["both", "up", "down"]
    """up raises alarms only for rises, down only for falls. Default: both."""

    budget: Duration | int
    """A key raises at most about one alarm per budget, true and false alarms together. Without times, the default is 2000 observations. Default: 168h."""

    rest: Duration | int
    """Half of it is the longest calm that ends an episode: that many values without a deviation always end it. A longer rest joins more deviations to one episode; they count as resting. The median step of the records converts a duration to observations. Default: 7h within 6 to 60 observations."""

    settling: Duration
    """Time at the start of a key in which its threshold is higher. 0 turns it off. Default: 96h."""

    season: Sequence[Duration] | Mapping[str, int]
    """Cycles of the usual value, for keys with times. They also set the hours of the plan: hours of the week with 168h, else hours of the day. [] turns both off. After a change of season, zone or ar, each key relearns its usual values. Default: {24h: 4, 168h: 3}."""

    zone: str
    """Zone of the season, and of times in messages. The default is model.zone if there is a model.season, else the zone of the source. Default: 'UTC'."""

    holidays: Sequence[Any] | Mapping[str, Any]
    """Dates that are treated and learned as another day of the week, by default Sunday: in usual values, in silences and in a model.season. New dates need no --migrate. Default: []."""

    monthly: Sequence[Any]
    """Days of the month on which the values differ from other days. The first such day of a key may raise an alarm; later ones are compared with the days before. New days need no --migrate. Default: []."""

    ar: int
    """Number of previous values on which the usual value depends. 0 turns it off. Default: 3."""


class Silence(TypedDict, total=False):
    """Keys of silence."""

    after: Duration
    """A fixed bound instead of the key's rhythm."""


class Session(TypedDict, total=False):
    """Keys of session."""

    gap: Duration
    """Time without an observation of the key that ends a session. By default 30 times the median step of the key, and at least 30m; for an endless topic, and with allowed_lateness, 30m."""

    allowed_lateness: Duration
    """How long after its end late records still revise a session. On a topic, the times of their partition decide. Default: 0s."""

    max: int
    """A longer session is cut into parts. Default: 10000000."""

    by: Hashable | Sequence[Hashable]
    """With order: arrival or time_format: trial, a session is a key together with the values of these columns or fields. By default it is a key."""


class Change(TypedDict, total=False):
    """Keys of change."""

    odds: float
    """Odds that a change must exceed: by default 10, or 4 for families without a scale."""

    walk: bool
    """normal, in sessions of up to 1,500 values: false means that the task has levels by design, under white or correlated noise, and that a walk or a line is no explanation. Default: true."""


class SmoothParameters(TypedDict, total=False):
    """Settings that all functions take."""

    transform: Literal["filter", "smooth"]
    """filter writes one estimate per observation, at once. smooth writes one per observation, at the end of its session. Default: filter."""

    family: Literal["ar", "bernoulli", "binomial", "categorical", "exponential", "mvnormal", "normal", "poisson", "regression"]
    """Family of distributions. Default: required."""

    prior: Mapping[str, Any] | str
    """Textbook parameters. An absent parameter has the family's default (go doc ./hafvf). auto sets the parameters from a key's first observations, for smooth from the session. {auto: true, order: 3} is auto with an order."""

    warm_up: int
    """Number of first observations from which prior: auto sets the prior. Default: 50."""

    dim: int
    """Length of an observation, if neither prior nor columns determine it. For regression it includes the target; for categorical it is the number of categories."""

    scale: Literal["linear", "log", "log1p", "sqrt"]
    """The filter learns values on this scale; for normal, mvnormal, regression (the target) and ar. Results are on the data's scale: mean is the median, and sd uses the delta method. A change needs --migrate. Default: linear."""

    season: Sequence[Duration] | Mapping[str, int]
    """Cycles of the values. The filter learns the values minus the season; for exponential and poisson, the season is a factor. Not for bernoulli, categorical, or smooth with levels. A change needs --migrate. Default: []."""

    aggregate: Aggregate | Mapping[str, Any]
    """Combines events into one observation per key and interval, dated at the interval's start. An interval closes wait and lateness after its end: in a file by the times of its key, in a topic by the watermark. See GUIDE."""

    levels: Sequence[Any]
    """Beta priors of the forgetting weights, bottom up: w, b, …. An empty list means no level. By default, smooth finds segments, and bernoulli and categorical have a bank. Default: [{alpha: 0.9, beta: 0.1}, {alpha: 1, beta: 1}]."""

    top: float
    """Fixed weight of the topmost level. 1 never forgets. Default: 1."""

    bank: Sequence[Any]
    """Several filters instead of levels and top, by Bayesian model averaging. detect without levels has a default bank. Without bank, levels and detect, bernoulli and categorical have [{levels: [{alpha: 8, beta: 2}], top: 1}, {levels: [], top: 0.9998}, {levels: [], top: 0.9}, {levels: [], top: 0.8}]."""

    bank_forgetting: float
    """Forgetting of the members' posterior weights, per observation. Default: 0.999."""

    detect: bool | Detect | Mapping[str, Any]
    """true separates outliers from changes and raises alarms within a budget. Default: false."""

    silence: bool | Silence | Mapping[str, Any]
    """true raises silent if a key has no record for longer than its rhythm allows, and recovered at its next record. In a file, silent is raised at the key's next record, or at the end of the file. See GUIDE. Default: false."""

    keys: Sequence[Any]
    """Exceptions for some keys, at most 10,000. For each field, the first matching exception that sets it wins. levels, top and bank are one field."""

    quiet: Sequence[Any]
    """Times in which some keys neither learn nor raise alarms. Their records have quiet: true. Overlapping times count once. The clock of a silence stops. See GUIDE."""

    order: Literal["event_time", "arrival"]
    """Order in which a key's records are learned: by their times, or as they arrive. Default: event_time."""

    expire: Duration
    """A key without a record for this duration, by the times of records, is forgotten. Its next record has n = 1. By default 2160h for an endless topic or query with order: event_time, else never. It must exceed lateness and aggregate.every."""

    lateness: Duration
    """How long a record waits for earlier records of its key. At most 100,000 records of a key wait; further records are rejected. The end of a file releases the waiting records; the next run with state rejects records before them. Default: 0s."""

    time_unit: Duration
    """Unit of time after which the weight of memory applies once. By default it applies once per observation."""

    session: Session | Mapping[str, Any]
    """smooth: records that are smoothed together."""

    change: Change | Mapping[str, Any]
    """smooth: changes that are reported."""

    records: Literal["brief", "full"]
    """brief omits the fields that are marked full in the list of records. Default: brief."""


class Parameters(SmoothParameters, total=False):
    """Settings of the filter."""

    interval: float
    """filter: adds lower and upper, the central predictive interval of this probability."""


DOCS = {
    "transform": "filter writes one estimate per observation, at once. smooth writes one per observation, at the end of its session. Default: filter.",
    "family": "Family of distributions. Default: required.",
    "prior": "Textbook parameters. An absent parameter has the family's default (go doc ./hafvf). auto sets the parameters from a key's first observations, for smooth from the session. {auto: true, order: 3} is auto with an order.",
    "warm_up": "Number of first observations from which prior: auto sets the prior. Default: 50.",
    "dim": "Length of an observation, if neither prior nor columns determine it. For regression it includes the target; for categorical it is the number of categories.",
    "scale": "The filter learns values on this scale; for normal, mvnormal, regression (the target) and ar. Results are on the data's scale: mean is the median, and sd uses the delta method. A change needs --migrate. Default: linear.",
    "season": "Cycles of the values. The filter learns the values minus the season; for exponential and poisson, the season is a factor. Not for bernoulli, categorical, or smooth with levels. A change needs --migrate. Default: [].",
    "aggregate": "Combines events into one observation per key and interval, dated at the interval's start. An interval closes wait and lateness after its end: in a file by the times of its key, in a topic by the watermark. See GUIDE.",
    "levels": "Beta priors of the forgetting weights, bottom up: w, b, …. An empty list means no level. By default, smooth finds segments, and bernoulli and categorical have a bank. Default: [{alpha: 0.9, beta: 0.1}, {alpha: 1, beta: 1}].",
    "top": "Fixed weight of the topmost level. 1 never forgets. Default: 1.",
    "bank": "Several filters instead of levels and top, by Bayesian model averaging. detect without levels has a default bank. Without bank, levels and detect, bernoulli and categorical have [{levels: [{alpha: 8, beta: 2}], top: 1}, {levels: [], top: 0.9998}, {levels: [], top: 0.9}, {levels: [], top: 0.8}].",
    "bank_forgetting": "Forgetting of the members' posterior weights, per observation. Default: 0.999.",
    "detect": "true separates outliers from changes and raises alarms within a budget. Default: false.",
    "silence": "true raises silent if a key has no record for longer than its rhythm allows, and recovered at its next record. In a file, silent is raised at the key's next record, or at the end of the file. See GUIDE. Default: false.",
    "keys": "Exceptions for some keys, at most 10,000. For each field, the first matching exception that sets it wins. levels, top and bank are one field.",
    "quiet": "Times in which some keys neither learn nor raise alarms. Their records have quiet: true. Overlapping times count once. The clock of a silence stops. See GUIDE.",
    "order": "Order in which a key's records are learned: by their times, or as they arrive. Default: event_time.",
    "expire": "A key without a record for this duration, by the times of records, is forgotten. Its next record has n = 1. By default 2160h for an endless topic or query with order: event_time, else never. It must exceed lateness and aggregate.every.",
    "lateness": "How long a record waits for earlier records of its key. At most 100,000 records of a key wait; further records are rejected. The end of a file releases the waiting records; the next run with state rejects records before them. Default: 0s.",
    "time_unit": "Unit of time after which the weight of memory applies once. By default it applies once per observation.",
    "session": "smooth: records that are smoothed together.",
    "change": "smooth: changes that are reported.",
    "records": "brief omits the fields that are marked full in the list of records. Default: brief.",
    "interval": "filter: adds lower and upper, the central predictive interval of this probability.",
}
