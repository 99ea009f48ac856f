"""Filtering of data frames."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from . import _client, _settings, _times
from ._plot import Plots

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._parameters import Parameters, RunArguments

Data: TypeAlias = "pd.DataFrame | pd.Series[Any]"
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

ALERT_COLUMNS = ["key", "time", "kind", "id", "corrects", "start", "delay", "odds", "score", "threshold", "x", "size", "message"]
ALERT_COLUMNS += ["episode_id", "episode_since", "episode_reports", "episode_state", "since", "level"]
ALERT_COLUMNS += ["worst_value", "worst_time", "worst_size"]
_TIMES = ("time", "start", "episode_since", "since", "worst_time")
_EPISODES = ("episode", "usual_before", "worst")  # objects of a record that are null outside of episodes


@dataclass
class Result(Plots):
    """The result of a run over a frame.

    Attributes:
        estimates: one row per input row, with the same index, NA for a rejected row. With ``aggregate`` one row per interval.
            The columns are the fields of a record, with ``_`` in place of the dot. Times are in UTC.
        alerts: one row per alarm, with ``score``, ``threshold``, ``size`` (in standard deviations), ``message`` and other
            fields. Rows with the same ``episode_id`` report one deviation of a key; with ``episode_state`` "worse" a row
            reports an earlier alarm again.
        rejected: one row per row that was not learned: ``row`` (its position), ``index``, ``key`` and ``reason``.
        states: the state of each key, as bytes. ``run(…, states=…)`` resumes from them.
    """

    estimates: pd.DataFrame
    alerts: pd.DataFrame
    rejected: pd.DataFrame
    states: dict[str, bytes]


@dataclass
class _Input:
    """The valid rows, sorted by key and time."""

    rows: Array  # positions in the frame
    codes: Array  # of each row: the index of its key in keys
    keys: list[str]
    times: Array
    x: Array  # values, one row per row
    ids: list[str] | None
    reasons: dict[int, str] = field(default_factory=dict)  # of invalid and rejected rows, by position
    texts: Array | None = None  # key of each row of the frame


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
    *,
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
        data: a frame, or a series of values, with any index.
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
        HafvfError: the settings are wrong, a state is damaged, or a state was made with other settings.
        KeyError: the frame has no such column.
        ValueError: two keys of the frame have the same text.
    """
    source = _settings.read(settings)
    aggregate = keywords.get("aggregate") or source[2].get("aggregate")
    aggregate = aggregate if isinstance(aggregate, Mapping) else {}
    events = aggregate.get("value") in ("count", "rate")
    if values is None and aggregate.get("value") == "share":
        values = [aggregate[name] for name in ("of", "to") if name in aggregate]
    frame, values = _frame_of(data, values, events, {key or "key", time or "time", id})
    moments = _column(frame, time, "time")
    if moments is None and time is None and isinstance(frame.index, pd.DatetimeIndex):
        moments = frame.index.to_series()
    named = None if moments is None else _times.zone_of(moments)
    names = [str(v) for v in values]
    model = _settings.model_of(source, keywords, values=names, zone=named or zone, untimed=moments is None)
    arrival = model.described().arrival
    given = _input(frame, _column(frame, key, "key"), moments, values, _column(frame, id, None), zone, arrival)
    kept = dict(states or {})
    answers = _ask(model, given, kept)
    return Result(_estimates(frame, model, given, answers), _alerts(answers.alerts), _rejected(frame, given), kept)


def filter(data: Data, **arguments: Unpack[RunArguments]) -> pd.DataFrame:
    """Returns the estimates of ``run`` with the same arguments, one row per row of the data."""
    return run(data, **arguments).estimates


def alerts(data: Data, **arguments: Unpack[RunArguments]) -> pd.DataFrame:
    """Returns the alarms of ``run`` with the same arguments; ``detect`` is true by default."""
    settings = arguments.get("settings")
    if settings is None or isinstance(settings, Mapping) and "detect" not in settings:
        arguments.setdefault("detect", True)
    return run(data, **arguments).alerts


def _frame_of(
    data: Data, values: Hashable | Sequence[Hashable], events: bool, taken: set[Hashable]
) -> tuple[pd.DataFrame, list[Hashable]]:
    """Returns the frame and its columns of values: no column if events are counted, and no column in taken."""
    if isinstance(data, pd.Series):
        name = "x" if data.name is None else data.name
        return data.to_frame(name), [name]
    if not isinstance(data, pd.DataFrame):
        raise TypeError(f"data is a {type(data).__name__}: give a DataFrame or a Series")
    if values is None:
        others = [name for name in data.columns if name not in taken]
        if events and "x" not in data:
            return data, []
        if "x" not in data and len(others) != 1:
            raise KeyError(f"the frame has no column x: give values=… with the column of values, one of {list(data.columns)}")
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
        codes, keys = np.zeros(n, np.intp), [str(values[0]) if values else "x"]
    else:
        codes, found = pd.factorize(key, use_na_sentinel=True)
        keys = [str(k) for k in found]
        if len(set(keys)) < len(keys):
            twice = next(k for k in keys if keys.count(k) > 1)
            raise ValueError(f"two keys of the frame have the text {twice!r}")
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
    labels = np.array([*keys, None], object)[codes]
    return _Input(rows, codes[rows], keys, times[rows], np.ascontiguousarray(x[rows]), texts, reasons, labels)


def _numbers(column: pd.Series[Any]) -> tuple[Array, dict[int, str]]:
    """Returns the numbers of a column, NaN for a missing value, and the reason for each invalid value by position."""
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan), {}
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    reasons = {}
    for i in wrong.tolist():
        text = str(column.iloc[i]).strip()
        if text and text.lower() not in ("nan", "null"):
            reasons[i] = f'the text "{text}" where a number is due'
    return numbers, reasons


def _ask(model: _client.Model, given: _Input, states: dict[str, bytes]) -> _Answers:
    """Filters the rows in calls of bounded size, and puts the new states of the keys into states."""
    out = _Answers()
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
            given.reasons[int(given.rows[lo + place])] = reason
        part.clear()
        lo = hi

    for i, name in enumerate(given.keys):
        at, end = int(bounds[i]), int(bounds[i + 1])
        while end - at > _client.MOST_ROWS:  # a long key needs several calls
            if part:
                call(at, _client.END)
            part.append((name, states.get(name), _client.MOST_ROWS))
            at += _client.MOST_ROWS
            call(at, _client.NONE)
        if part and end - lo > _client.MOST_ROWS:
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


def _estimates(frame: pd.DataFrame, model: _client.Model, given: _Input, answers: _Answers) -> pd.DataFrame:
    described = model.described()
    n = len(frame)
    empty = np.zeros(0)
    rows = np.concatenate([*answers.rows, np.zeros(0, np.intp)]).astype(np.intp)
    times = np.concatenate([*answers.times, np.zeros(0, np.int64)])
    keys = np.repeat(np.array(answers.keys, object), answers.counts)
    columns = [np.concatenate([*(c[i] for c in answers.columns), empty]) for i in range(len(described.columns))]
    here = np.ones(len(rows), bool)
    if described.events:
        index: pd.Index[Any] = pd.RangeIndex(len(rows))
    else:
        index = frame.index
        if (rows < 0).any():
            rows = _in_order(rows, keys, given)
        here = rows >= 0
        whole = np.full(n, _client.NONE, np.int64)
        whole[rows[here]] = times[here]
        times, keys = whole, given.texts if given.texts is not None else keys
        for i, column in enumerate(columns):
            placed = np.full(n, np.nan)
            placed[rows[here]] = column[here]
            columns[i] = placed
    out: dict[str, Any] = {"key": keys, "time": _times.iso(times)}
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
    return pd.DataFrame(out, index=index)


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


def _alerts(found: list[dict[str, Any]]) -> pd.DataFrame:
    flat = _flat(found) if found else pd.DataFrame()
    out = flat.reindex(columns=[*ALERT_COLUMNS, *(c for c in flat.columns if c not in ALERT_COLUMNS)])
    for name in _TIMES:
        out[name] = pd.to_datetime(out[name], utc=True, format="ISO8601").astype("datetime64[ns, UTC]")
    out["kind"] = out["kind"].astype("category")
    return out


def _rejected(frame: pd.DataFrame, given: _Input) -> pd.DataFrame:
    rows = sorted(given.reasons)
    if rows:
        first = rows[0]
        some = "1 row was" if len(rows) == 1 else f"{len(rows)} rows were"
        warnings.warn(f"hafvf: {some} rejected, the first is row {first}: {given.reasons[first]}; see .rejected", stacklevel=3)
    labels = given.texts[rows] if given.texts is not None else None
    index = frame.index[rows]
    named = index.tolist() if isinstance(index, pd.MultiIndex) else index
    return pd.DataFrame({"row": rows, "index": named, "key": labels, "reason": [given.reasons[r] for r in rows]})
