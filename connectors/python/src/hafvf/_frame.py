"""Filtering of data frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
import pandas as pd

from . import _client, _settings, _times
from ._plot import Plots

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._parameters import Parameters
    from ._signatures import RunArguments

Data: TypeAlias = "pd.DataFrame | pd.Series[Any] | Any"  # Any: a frame with to_pandas, such as of polars or Arrow
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

ALERT_COLUMNS = ["key", "time", "kind", "id", "corrects", "start", "delay", "odds", "score", "threshold", "x", "size", "message"]
ALERT_COLUMNS += ["episode_id", "episode_since", "episode_reports", "episode_state", "since", "level"]
ALERT_COLUMNS += ["worst_value", "worst_time", "worst_size", "row", "index"]
_TIMES = ("time", "start", "episode_since", "since", "worst_time")
_EPISODES = ("episode", "usual_before", "worst")  # objects of a record that are null outside of episodes


@dataclass
class Result(Plots):
    """The result of a run over a frame.

    Attributes:
        estimates: one row per input row, with the same index, NA for a rejected row. With ``aggregate`` one row per interval.
            The columns are the fields of a record, with ``_`` in place of the dot. Keys have the type of the frame's, and
            times its zone and unit; times of texts and numbers are in UTC. A level of the index is not a column, too.
        alerts: one row per alarm, with ``score``, ``threshold``, ``size`` (in standard deviations), ``message`` and other
            fields. ``row`` and ``index`` are the position and the label of its row in ``estimates``, NA for a silence. Rows
            with the same ``episode_id`` report one deviation of a key; with ``episode_state`` "worse" a row reports an
            earlier alarm again.
        rejected: one row per row that was not learned: ``row`` (its position), ``index``, ``key`` and ``reason``.
        states: the state of each key, as bytes, by the key's text. ``run(…, states=…)`` resumes from them.
    """

    estimates: pd.DataFrame
    alerts: pd.DataFrame
    rejected: pd.DataFrame
    states: _client.States

    def joined(self, data: Data) -> pd.DataFrame:
        """Returns the frame of the run with the estimates as further columns, which end in ``_hafvf`` if it has their name.

        Raises:
            ValueError: data has another index than the estimates; so has a run with ``aggregate``, whose rows are intervals.
        """
        frame = _pandas(data)
        if not frame.index.equals(self.estimates.index):
            raise ValueError("data has another index than the estimates: give the frame of the run, without aggregate")
        inputs = [name for name in self.estimates if name in ("key", "time", "id", "x") or str(name).startswith("x_")]
        rest = self.estimates.drop(columns=inputs)
        return pd.concat([frame, rest.rename(columns=lambda name: f"{name}_hafvf" if name in frame else name)], axis=1)


@dataclass
class _Input:
    """The valid rows, sorted by key and time."""

    rows: Array  # positions in the frame
    codes: Array  # of each row: the index of its key in keys
    keys: list[str]
    times: Array
    x: Array  # values, one row per row
    ids: list[str] | None
    labels: pd.Index[Any]  # the keys in their own type
    label: pd.Series[Any]  # the key of each row of the frame
    moments: pd.Series[Any] | None
    zone: str
    reasons: dict[int, str] = field(default_factory=dict)  # of invalid and rejected rows, by position

    def labels_of(self, keys: list[str]) -> pd.Index[Any]:
        """Returns keys in their own type. A key that is not in the frame remains a text."""
        position = {name: i for i, name in enumerate(self.keys)}
        codes = [position.get(name, -1) for name in keys]
        if -1 not in codes:
            return self.labels.take(codes)
        return pd.Index([name if code < 0 else self.labels[code] for name, code in zip(keys, codes, strict=True)], dtype=object)


@dataclass
class _Answers:
    rows: list[Array] = field(default_factory=list)
    times: list[Array] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)  # keys of the rows; counts has the number of rows of each
    counts: list[int] = field(default_factory=list)
    columns: list[list[Array]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)  # only with full records
    alerts: list[dict[str, Any]] = field(default_factory=list)


def run(
    data: Data,
    *others: NoReturn,
    key: Hashable = None,
    time: Hashable = None,
    values: Hashable | Sequence[Hashable] = None,
    id: Hashable = None,
    states: Mapping[str, bytes] | None = None,
    zone: str = "UTC",
    settings: _settings.Settings = None,
    **keywords: Unpack[Parameters],
) -> Result:
    """Filters the rows of a frame in the order of their times, with one filter per key.

    Args:
        data: a frame, or a series of values, with any index. Frames of polars and Arrow become those of pandas.
        others: not used; all other arguments have names.
        key: the column of keys. Default: ``key`` if there is one, otherwise all rows are one series.
        time: the column of times. Default: ``time``, otherwise a ``DatetimeIndex``. ``order="arrival"`` needs no times.
        values: the column of values. Default: ``x``, otherwise the only other column. A list of columns is a vector.
        id: a column of ids, which estimates and alerts repeat. Default: none.
        states: the states of an earlier result. Their keys resume from them.
        zone: the time zone for times without an offset, such as ``"Europe/Berlin"``.
        settings: the model's keys of a config (CONFIG.md), as a dict, or the path of a YAML file.
        **keywords: settings as keywords: ``family``, ``prior``, ``detect``, ``lateness``, … They override ``settings``.
            Without a family and without a prior, the family is normal with ``prior: auto``.

    Raises:
        HafvfError: the settings are wrong, a state is damaged, or a state was made with other settings. With the code
            ``rejected``, more than half of the rows were rejected; ``result`` has the rest.
        KeyError: the frame has no such column.
        TypeError: an argument or a column of values has the wrong type.
        ValueError: two keys of the frame have the same text, or the times are days of a spreadsheet or years.
    """
    if others:
        raise TypeError(f"only data has no name: name the other arguments, as in key={others[0]!r}")
    for name, column in (("key", key), ("time", time), ("id", id)):
        if not isinstance(column, Hashable):
            text = f"{name} is a {type(column).__name__}: give the name of one column; df.assign(key=…) makes one of several"
            raise TypeError(text)
    kept = _client.States.of(states)
    source = _settings.read(settings)
    aggregate = keywords.get("aggregate") or source[2].get("aggregate")
    aggregate = aggregate if isinstance(aggregate, Mapping) else {}
    events = aggregate.get("value") in ("count", "rate")
    if values is None and aggregate.get("value") == "share":
        values = [aggregate[name] for name in ("of", "to") if name in aggregate]
    frame, values = _frame_of(data, values, events, {key or "key", time or "time", id})
    moments = _column(frame, time, "time")
    if moments is None and time is None and isinstance(frame.index, (pd.DatetimeIndex, pd.PeriodIndex)):
        moments = frame.index.to_series()
    named = None if moments is None else _times.zone_of(moments)
    names = [str(v) for v in values]
    model = _settings.model_of(source, keywords, values=names, zone=named or zone, untimed=moments is None)
    described = model.described()
    keys = _column(frame, key, "key")
    given = _input(frame, keys, moments, values, _column(frame, id, None), zone, described.arrival)
    if keys is None and not described.events:
        _check_keys(frame, given, [*values, time or "time", id])
    answers = _ask(model, given, kept, model.others(kept))
    kept.settings = described.settings
    _check_lengths(described, answers)
    estimates, places = _estimates(frame, model, given, answers)
    found = _alerts(answers.alerts, given, places, estimates.index)
    result = Result(estimates, found, _rejected(frame, given), kept)
    _check_rejected(result.rejected, len(frame), result)
    return result


def filter(data: Data, *others: NoReturn, **arguments: Unpack[RunArguments]) -> pd.DataFrame:
    """Returns the estimates of ``run`` with the same arguments, one row per row of the data."""
    return run(data, *others, **arguments).estimates


def alerts(data: Data, *others: NoReturn, **arguments: Unpack[RunArguments]) -> pd.DataFrame:
    """Returns the alarms of ``run`` with the same arguments; ``detect`` is true by default."""
    if arguments.get("detect") is False and not arguments.get("silence"):
        raise ValueError("detect=False raises no alarms: leave it out, or use hafvf.filter")
    settings = arguments.get("settings")
    if settings is None or isinstance(settings, Mapping) and "detect" not in settings:
        arguments.setdefault("detect", True)
    return run(data, *others, **arguments).alerts


def _pandas(data: Data) -> pd.DataFrame:
    """Returns the data as a frame of pandas."""
    if to_pandas := getattr(data, "to_pandas", None):
        data = to_pandas()
    if isinstance(data, pd.Series):
        return data.to_frame("x" if data.name is None else data.name)
    if not isinstance(data, pd.DataFrame):
        remedy = "give a DataFrame or a Series of pandas, polars or Arrow, such as pd.DataFrame(data)"
        raise TypeError(f"data is a {type(data).__name__}: {remedy}")
    return data


def _check_keys(frame: pd.DataFrame, given: _Input, taken: list[Hashable]) -> None:
    """Warns if the times of a frame without keys repeat, as those of several series do."""
    times = pd.Series(given.times)
    if given.moments is None or times.duplicated().mean() <= 0.1:
        return
    names = []
    columns = frame.iloc[given.rows].reset_index()
    for name in [n for n in columns if n not in taken and n != "index"]:
        try:
            fits = (
                columns[name].nunique() * 2 < len(times)
                and pd.DataFrame({"k": columns[name], "t": times}).duplicated().mean() <= 0.1
            )
        except TypeError:  # its values have no hash
            continue
        names += [repr(name)] if fits and columns[name].nunique() > 1 else []
    advice = f"key={' or key='.join(names)} may separate them" if names else "key= separates several series"
    share = f"{100 * times.duplicated().mean():.0f} % of the times repeat"
    _client.warn(f"{share}, and without a key all rows are one series: {advice}")


def _check_lengths(described: _client.Description, answers: _Answers) -> None:
    """Warns about keys that are too short for alarms."""
    if not described.warm_up or "detect_score" not in described.columns:
        return
    n = described.columns.index("n")
    last: dict[str, float] = {}
    ends = np.cumsum(answers.counts)
    numbers = np.concatenate([*(c[n] for c in answers.columns), np.zeros(0)])
    for key, end, count in zip(answers.keys, ends.tolist(), answers.counts, strict=True):
        if count:
            last[key] = numbers[end - 1]
    short = [key for key, found in last.items() if found < described.warm_up]
    if short:
        some = ", ".join(short[:5]) + (f" and {len(short) - 5} more" if len(short) > 5 else "")
        keys = "1 key" if len(short) == 1 else f"{len(short)} keys"
        about = f"fewer observations than warm_up ({described.warm_up}), in which no alarm is raised"
        _client.warn(f"{about}: {keys}, {some}")


# Advice for rejected rows, by the beginning of the reason.
_ADVICE = {
    "the time ": 'pd.to_datetime(df["time"], format=…) makes times of texts',
    "the text ": "pd.to_numeric makes numbers of texts, and pd.read_csv(…, decimal=',') reads decimal commas",
    "late: ": "states= have learned this time already, or give lateness=",
    "no time": "give time=, or order='arrival'",
    "the row has no key": "see key=",
    "empty key": "see key=",
    "": "see values= and family=",
}


def _check_rejected(rejected: pd.DataFrame, rows: int, result: Result) -> None:
    """Warns about rejected rows. It raises HafvfError if they are more than half."""
    if rejected.empty:
        return
    some = "1 row was" if len(rejected) == 1 else f"{len(rejected)} rows were"
    first = rejected.iloc[0]
    if 2 * len(rejected) <= rows:
        _client.warn(f"{some} rejected, the first is row {first['row']}: {first['reason']}; see .rejected")
        return
    reasons: dict[str, str] = {}
    for row, reason in zip(rejected["row"], rejected["reason"], strict=True):
        advice = next(advice for begin, advice in _ADVICE.items() if reason.startswith(begin))
        reasons.setdefault(advice, f"row {row}: {reason}; {advice}")
    text = f"{len(rejected)} of {rows} rows were rejected, more than half: "
    raise _client.HafvfError(
        "rejected", text + ". ".join([*reasons.values()][:3]) + ". The error's result has the other rows", result
    )


def _frame_of(
    data: Data, values: Hashable | Sequence[Hashable], events: bool, taken: set[Hashable]
) -> tuple[pd.DataFrame, list[Hashable]]:
    """Returns the frame and its columns of values: no column if events are counted, and no column in taken."""
    series = isinstance(data, pd.Series)
    data = _pandas(data)
    if series:
        return data, list(data.columns)
    if values is None:
        others = [name for name in data.columns if name not in taken]
        if events and "x" not in data:
            return data, []
        if "x" not in data and len(others) != 1:
            text = f"the frame has no column x: give values=… with the column of values, one of {list(data.columns)}"
            times = "ignore_index=False" if isinstance(data.index, pd.DatetimeIndex) else "id_vars=['time']"
            raise KeyError(f"{text}; if each column is a series: df.melt({times}, var_name='key', value_name='x')")
        values = "x" if "x" in data else others[0]
    columns = list(values) if isinstance(values, (list, pd.Index)) else [values]
    for name in columns:
        _column(data, name, None)
    return data, columns


def _column(frame: pd.DataFrame, name: Hashable, default: str | None) -> pd.Series[Any] | None:
    if name is None and default is None:
        return None
    if name is None:
        return _column(frame, default, None) if default in frame or default in frame.index.names else None
    if name not in frame and name in frame.index.names:
        return frame.index.get_level_values(list(frame.index.names).index(name)).to_series()
    if name not in frame:
        raise KeyError(f"the frame has no column {name!r}; it has {list(frame.columns)}")
    column = frame[name]
    if isinstance(column, pd.DataFrame):
        raise KeyError(f"the frame has {column.shape[1]} columns {name!r}")
    return column


def _input(
    frame: pd.DataFrame,
    key: pd.Series[Any] | None,
    moments: pd.Series[Any] | None,
    values: list[Hashable],
    ids: pd.Series[Any] | None,
    zone: str,
    arrival: bool,
) -> _Input:
    n = len(frame)
    reasons: dict[int, str] = {}
    if key is None:
        codes, found = np.zeros(n, np.intp), pd.Index([str(values[0]) if values else "x"])
        key = pd.Series(found[codes])
    else:
        codes, found = pd.factorize(key, use_na_sentinel=True)
    keys = [str(k) for k in found]
    if len(set(keys)) < len(keys):
        twice = next(k for k in keys if keys.count(k) > 1)
        raise ValueError(f"two keys of the frame have the text {twice!r}: give key= a column of one type")
    reasons |= dict.fromkeys(np.flatnonzero(codes < 0).tolist(), "the row has no key")
    if moments is None:
        times = np.full(n, _client.NONE, np.int64)
    else:
        times, bad = _times.nanoseconds(moments, zone, codes.tolist())
        reasons |= bad
    x = np.empty((n, len(values)))
    for i, name in enumerate(values):
        x[:, i], bad = _numbers(frame[name])
        reasons |= bad
    good = np.ones(n, bool)
    good[list(reasons)] = False
    rows = np.flatnonzero(good)
    order = np.argsort(codes[rows], kind="stable") if arrival else np.lexsort((times[rows], codes[rows]))
    rows = rows[order]
    texts = None if ids is None else ["" if v is None or v != v else str(v) for v in ids.iloc[rows].tolist()]
    x = np.ascontiguousarray(x[rows])
    return _Input(rows, codes[rows], keys, times[rows], x, texts, pd.Index(found), key, moments, zone, reasons)


def _numbers(column: pd.Series[Any]) -> tuple[Array, dict[int, str]]:
    """Returns the numbers of a column, NaN for a missing value, and the reason for each invalid value by position."""
    if column.dtype.kind in "cMm":
        text = f"the column {column.name!r} has the type {column.dtype}, and no numbers: give values= others"
        raise TypeError(text + (", or .dt.total_seconds() of it" if column.dtype.kind == "m" else ""))
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan), {}
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    reasons = {}
    for i in wrong.tolist():
        text = str(column.iloc[i]).strip()
        if text and text.lower() not in ("nan", "null"):
            reasons[i] = f'the text "{text}" where a number is due'
    return numbers, reasons


def _ask(model: _client.Model, given: _Input, states: _client.States, written: str | None) -> _Answers:
    """Filters the rows in calls of bounded size, and puts the new states of the keys into states."""
    out = _Answers()
    most = model.described().most_rows
    bounds = np.searchsorted(given.codes, np.arange(len(given.keys) + 1))
    now = int(given.times.max(initial=_client.NONE))
    part: list[tuple[str, bytes | None, int]] = []
    lo = 0

    def call(hi: int, horizon: int) -> None:
        nonlocal lo
        answer = model.ask(
            part,
            given.times[lo:hi],
            given.x[lo:hi],
            horizon=horizon,
            now=now,
            records=model.described().full,
            ids=None if given.ids is None else given.ids[lo:hi],
            written=written,
        )
        _client.keep(states, (name for name, _, _ in part), answer.states)
        out.rows.append(np.where(answer.places < 0, -1, given.rows[np.maximum(answer.places, 0) + lo] if hi > lo else -1))
        out.times.append(answer.times)
        out.keys += [name for name, _, _ in part]
        out.counts += answer.rows
        out.columns.append(answer.columns)
        out.alerts += _client.lines(answer.alerts)
        out.records += _client.lines(answer.records)
        for place, reason in answer.rejects:
            if place >= 0:  # else it waited in a state
                given.reasons[int(given.rows[lo + place])] = reason
        part.clear()
        lo = hi

    for i, name in enumerate(given.keys):
        at, end = int(bounds[i]), int(bounds[i + 1])
        while end - at > most:  # a long key needs several calls
            if part:
                call(at, _client.END)
            part.append((name, states.get(name), most))
            at += most
            call(at, _client.NONE)
        if part and end - lo > most:
            call(at, _client.END)
        if end > at:
            part.append((name, states.get(name), end - at))
    if part:
        call(len(given.rows), _client.END)
    if model.described().clocked:
        others = sorted(set(states).difference(given.keys))
        for first in range(0, len(others), _client.MOST_ROWS):
            part.extend((name, states[name], 0) for name in others[first : first + _client.MOST_ROWS])
            call(lo, _client.END)
    return out


Places: TypeAlias = "dict[tuple[str, int], list[int]]"  # the rows with an alarm, by key and time


def _estimates(frame: pd.DataFrame, model: _client.Model, given: _Input, answers: _Answers) -> tuple[pd.DataFrame, Places]:
    """Returns the estimates, and the places of alarms."""
    described = model.described()
    n = len(frame)
    empty = np.zeros(0)
    rows = np.concatenate([*answers.rows, np.zeros(0, np.intp)]).astype(np.intp)
    times = np.concatenate([*answers.times, np.zeros(0, np.int64)])
    keys = np.repeat(np.array(answers.keys, object), answers.counts)
    columns = [np.concatenate([*(c[i] for c in answers.columns), empty]) for i in range(len(described.columns))]
    here = np.ones(len(rows), bool)
    if described.events:
        rows = np.arange(len(rows))
        index: pd.Index[Any] = pd.RangeIndex(len(rows))
        labels: Any = given.labels_of(keys.tolist())
    else:
        index = frame.index
        if (rows < 0).any():
            rows = _in_order(rows, keys, given)
        here, labels = rows >= 0, given.label.array
    places = _places(described, given, keys, times, rows, columns)
    if not described.events:
        whole = np.full(n, _client.NONE, np.int64)
        whole[rows[here]] = times[here]
        times = whole
        for i, column in enumerate(columns):
            placed = np.full(n, np.nan)
            placed[rows[here]] = column[here]
            columns[i] = placed
    out: dict[str, Any] = {"key": labels, "time": _times.like(times, given.moments, given.zone)}
    if given.ids is not None and not described.events:
        ids = np.full(n, None, object)
        ids[given.rows] = given.ids
        out["id"] = ids
    for name, column in zip(described.columns, columns, strict=True):
        out[name] = described.typed(name, column)
    if answers.records:
        more = _flat(answers.records)
        for name in more.columns.difference([*out, "x", "id", *(n.rsplit("_", 1)[0] for n in out)], sort=False):
            placed = np.full(len(index), None, object)
            placed[rows[here] if not described.events else slice(None)] = more[name].to_numpy(object)[here]
            out[name] = pd.Series(placed).infer_objects().to_numpy()
    levels = [] if described.events else index.names
    return pd.DataFrame({name: column for name, column in out.items() if name not in levels}, index=index), places


def _places(
    described: _client.Description, given: _Input, keys: Array, times: Array, rows: Array, columns: list[Array]
) -> Places:
    """Returns the rows with an alarm, also the rejected rows, which may have one."""
    places: Places = defaultdict(list)
    if "detect_alarm" in described.columns:
        for i in np.flatnonzero(~np.isnan(columns[described.columns.index("detect_alarm")]) & (rows >= 0)).tolist():
            places[keys[i], int(times[i])].append(int(rows[i]))
        for i in np.flatnonzero(np.isin(given.rows, list(given.reasons))).tolist():
            places[given.keys[given.codes[i]], int(given.times[i])].append(int(given.rows[i]))
    return places


def _in_order(rows: Array, keys: Array, given: _Input) -> Array:
    """Fills in the rows of observations that waited in a state: the rows of a key are in order. They follow the observations
    that waited before the frame, which have no row.
    """
    rows = rows.copy()
    for key in set(keys[rows < 0]):
        code = given.keys.index(key) if key in given.keys else -1
        own = [r for r in given.rows[given.codes == code].tolist() if r not in given.reasons]
        at = np.flatnonzero(keys == key)
        rows[at] = -1
        rows[at[len(at) - len(own) :]] = own
    return rows


def _flat(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Returns a frame with the fields of records. Outside of episodes, the fields of an episode are NA."""
    flat = pd.json_normalize(records, sep="_")
    return flat.drop(columns=[prefix + name for prefix in ("", "detect_") for name in _EPISODES], errors="ignore")


def _alerts(found: list[dict[str, Any]], given: _Input, places: Places, index: pd.Index[Any]) -> pd.DataFrame:
    flat = _flat(found) if found else pd.DataFrame()
    out = flat.reindex(columns=[*ALERT_COLUMNS, *(c for c in flat.columns if c not in ALERT_COLUMNS)])
    keys = out["key"].tolist()
    for name in _TIMES:
        nanos = (
            pd.to_datetime(out[name], utc=True, format="ISO8601").astype("datetime64[ns, UTC]").to_numpy("M8[ns]").view(np.int64)
        )
        if name == "time":
            at = zip(keys, nanos.tolist(), strict=True)
            rows = [places[moment].pop(0) if places.get(moment) else None for moment in at]
        out[name] = _times.like(nanos, given.moments, given.zone)
    out["key"] = given.labels_of(keys)
    out["kind"] = out["kind"].astype("category")
    out["row"] = pd.array(rows, "Int64")
    known = [row for row in rows if row is not None]
    labels = iter(_labels(index[known]))
    some = [None if row is None else next(labels) for row in rows]
    out["index"] = _labels(index[known]) if len(known) == len(rows) else pd.Series(some, dtype=object)
    return out


def _labels(index: pd.Index[Any]) -> Any:
    """Returns the labels of an index as a column."""
    return index.tolist() if isinstance(index, pd.MultiIndex) else index


def _rejected(frame: pd.DataFrame, given: _Input) -> pd.DataFrame:
    rows = sorted(given.reasons)
    about = {"row": rows, "index": _labels(frame.index[rows]), "key": given.label.iloc[rows].array}
    return pd.DataFrame(about | {"reason": [given.reasons[row] for row in rows]})
