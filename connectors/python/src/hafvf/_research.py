"""The researcher's tables of a frame: smoothed sessions, trials, fits and backtests, as the program hafvf computes them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from . import _client, _frame, _settings, _times
from ._plot import Plots

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._parameters import Parameters, SmoothParameters
    from ._signatures import Arguments

Columns: TypeAlias = "Hashable | Sequence[Hashable]"
_WHOLE = {
    "n",
    "trial",
    "trials",
    "segment",
    "start",
    "end",
    "outliers",
    "choices",
    "events",
    "revision",
    "segment_n",
    "session_n",
}


@dataclass
class Smoothed(Plots):
    """The result of ``smooth``.

    Attributes:
        estimates: one row per row of the data, in the order of the sessions, with the index of the data: the estimate given the
            whole session, the segment, and the evidence of a change. The columns are the fields of a smoothed record, with
            ``_`` in place of the dot.
        segments: one row per segment, as ``hafvf sessions`` writes them.
    """

    estimates: pd.DataFrame
    segments: pd.DataFrame


def smooth(
    data: _frame.Data,
    *,
    key: Columns = None,
    time: Hashable = None,
    values: Columns = None,
    interval: float = 0.95,
    zone: str = "UTC",
    settings: _settings.Settings = None,
    **keywords: Unpack[SmoothParameters],
) -> Smoothed:
    """Smooths the finished sessions of a frame, and finds their segments, as ``hafvf run`` does with ``transform: smooth``.

    Args:
        data: a frame, or a series of values.
        key: the column of keys, or a list of columns. Default: ``key`` if there is one, otherwise all rows are one series.
        time: the column of times. Default: ``time``, otherwise a ``DatetimeIndex``. Without times, the rows are in order, and
            ``session={"by": "block"}`` names the columns that separate sessions.
        values: the column of values, or a list of columns. Default: ``x``, otherwise the only other column.
        interval: the probability of the interval of a segment's mean, from ``lower`` to ``upper``.
        zone: the time zone for times without an offset.
        settings: the model's keys of a config (CONFIG.md), as a dict, or the path of a YAML file.
        **keywords: settings as keywords, which override ``settings``.

    Raises:
        HafvfError: the settings or the arguments are wrong.
        KeyError: the frame has no such column.
    """
    rows = _Rows(data, key, time, values, zone, settings, keywords)
    tables = rows.ask({"do": "smooth", "interval": interval}).tables
    return Smoothed(tables["estimates"], tables["segments"])


def sessions(data: _frame.Data, **arguments: Unpack[Arguments]) -> pd.DataFrame:
    """Returns the segments of ``smooth`` with the same arguments, one row each, as ``hafvf sessions`` does."""
    return smooth(data, **arguments).segments


def trials(
    data: _frame.Data,
    *,
    key: Columns = None,
    time: Hashable = None,
    values: Columns = None,
    zone: str = "UTC",
    settings: _settings.Settings = None,
    **keywords: Unpack[Parameters],
) -> pd.DataFrame:
    """Returns one row per row of a frame, with predictions, learning rates and changes, as ``hafvf trials`` does.

    The rows are sorted by key and in the order of learning, and have the index of the data. The arguments are those of
    ``smooth``.
    """
    return _Rows(data, key, time, values, zone, settings, keywords).ask({"do": "trials"}).tables["trials"]


def fit(
    data: _frame.Data,
    *,
    over: str | Sequence[str],
    response: Literal["choice"] | None = None,
    choice: Hashable = None,
    subject: Columns = None,
    offered: Hashable = None,
    stay: bool = False,
    pooled: bool = False,
    key: Columns = None,
    time: Hashable = None,
    values: Columns = None,
    zone: str = "UTC",
    settings: _settings.Settings = None,
    **keywords: Unpack[Parameters],
) -> pd.DataFrame:
    """Fits the parameters of a learner to each key's outcomes, or to participants' choices, as ``hafvf fit`` does.

    ``.attrs["notes"]`` of the result has the notes of the program. The other arguments are those of ``smooth``; the prior must
    be given in numbers.

    Args:
        data: a frame, or a series of values.
        over: the parameters to search, such as ``["levels[0].alpha", "top"]``.
        response: ``"choice"`` fits the choices of participants; by default the outcomes are fitted.
        choice: with a response: the column of the choices, or ``"column=word"`` with the word of outcome 1 of two words.
            Default: ``choice``. If the column is in ``key``, each option has a learner.
        subject: the columns of the key that identify a participant. Default: all but the choice.
        offered: the column with the options on offer, separated by spaces. Default: all options are on offer.
        stay: whether to search the weight of repeating the last choice too.
        pooled: whether to fit one set of parameters to all keys, in a first row without a key.
    """
    if response is not None and response != "choice":
        raise ValueError(f"response={response!r}: the only response is 'choice'")
    if response is None and (choice is not None or subject is not None or offered is not None or stay):
        raise ValueError("choice, subject, offered and stay need response='choice'")
    choice = "choice" if response and choice is None else choice
    column = choice
    if isinstance(choice, str) and not (isinstance(data, pd.DataFrame) and choice in data):
        column = choice.partition("=")[0]
    also = [name for name in (column, offered) if name is not None]
    rows = _Rows(data, key, time, values, zone, settings, keywords, also=also)
    wanted = {"choice": "" if choice is None else str(choice), "offered": "" if offered is None else str(offered), "stay": stay}
    wanted["subject"] = None if subject is None else [str(name) for name in _list(subject)]
    found = rows.ask(
        {"do": "fit", "over": over if isinstance(over, str) else ", ".join(over), "pooled": pooled, "response": wanted}
    )
    table = found.tables["fit"]
    table.attrs["notes"] = found.notes
    for note in found.notes:
        if note.startswith(("warning: ", "beta depends")):
            warnings.warn("hafvf: " + note.removeprefix("warning: "), stacklevel=2)
    return table


@dataclass
class Backtest:
    """The result of ``backtest``. ``print`` shows it as ``hafvf backtest`` does.

    Attributes:
        alarms: one row per alarm that a run would have raised, by time.
        keys: one row per key, those with most alarms first.
        report: all figures, as ``hafvf backtest --json`` writes them; ``report["labels"]`` compares alarms with labels.
        text: the report in words.
    """

    alarms: pd.DataFrame
    keys: pd.DataFrame
    report: dict[str, Any]
    text: str

    def __str__(self) -> str:
        """Returns the report in words."""
        return self.text


def backtest(
    data: _frame.Data,
    *,
    labels: pd.DataFrame | str | os.PathLike[str] | None = None,
    key: Columns = None,
    time: Hashable = None,
    values: Columns = None,
    zone: str = "UTC",
    settings: _settings.Settings = None,
    **keywords: Unpack[Parameters],
) -> Backtest:
    """Reports the alarms that settings would have raised on past data, as ``hafvf backtest`` does.

    ``detect`` is true by default. The other arguments are those of ``smooth``.

    Args:
        data: a frame, or a series of values.
        labels: the windows of known incidents: a frame with the columns ``key``, ``start`` and ``end``, or the path of a file
            of ``hafvf backtest --labels``.
    """
    text = ""
    if isinstance(labels, pd.DataFrame):
        windows = pd.DataFrame({"key": labels["key"].map(str)})
        for name in ("start", "end"):
            times, wrong = _times.nanoseconds(labels[name], zone, [0] * len(labels))
            for row, reason in wrong.items():
                raise ValueError(f"labels: row {row}, {name}: {reason}")
            windows[name] = _times.iso(times).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        text = windows.to_csv(index=False)
    elif labels is not None:
        text = Path(labels).read_text(encoding="utf-8")
    if settings is None or isinstance(settings, Mapping) and "detect" not in settings:
        keywords.setdefault("detect", True)
    rows = _Rows(data, key, time, values, zone, settings, keywords)
    answer = rows.ask({"do": "backtest", "labels": text}).answer
    alarms, keys = pd.DataFrame(answer["events"] or []), pd.json_normalize(answer["report"]["by_key"], sep="_")
    alarms = alarms.reindex(columns=["key", "time", "n", "id", "kind", "start", "delay", "size", "message"])
    for name in ("time", "start"):
        alarms[name] = rows.times_of(alarms[name])
    for table in (alarms, keys):
        table["key"] = [rows.originals.get(name, name) for name in table["key"]]
    return Backtest(alarms, keys.drop(columns="weeks"), answer["report"], answer["text"])


@dataclass
class _Tables:
    tables: dict[str, pd.DataFrame]
    answer: dict[str, Any]

    @property
    def notes(self) -> list[str]:
        return list(self.answer["notes"])


def _list(names: Columns) -> list[Hashable]:
    return list(names) if isinstance(names, (list, tuple, pd.Index)) else [names]


class _Rows:
    """The rows of a frame for a request for tables."""

    def __init__(
        self,
        data: _frame.Data,
        key: Columns,
        time: Hashable,
        values: Columns,
        zone: str,
        settings: _settings.Settings,
        keywords: Mapping[str, Any],
        also: Sequence[Hashable] = (),
    ) -> None:
        source = _settings.read(settings)
        session = keywords.get("session") or source[2].get("session") or {}
        also = [*also, *_list(session["by"])] if "by" in session else also
        keys: list[Hashable] = ["key"] if key is None else _list(key)
        frame, values = _frame._frame_of(data, values, False, {*keys, time or "time", *also})
        if key is None and _frame._column(frame, None, "key") is None:
            keys = []
        moments = _frame._column(frame, time, "time")
        if moments is None and isinstance(frame.index, pd.DatetimeIndex):
            moments = frame.index.to_series()
        self.frame, self.reasons, self.dtype = frame, dict[int, str](), None if moments is None else moments.dtype
        self.names, self.values = [str(name) for name in keys], values
        self.codes = self._keys([_frame._column(frame, name, None) for name in keys if name not in also])
        if moments is None:
            self.times = np.full(len(frame), _client.NONE, np.int64)
            if "order" not in keywords and "order" not in source[2]:
                keywords = {**keywords, "order": "arrival"}
        else:
            self.times, bad = _times.nanoseconds(moments, zone, self.codes.tolist())
            self.reasons |= bad
        self.x = np.empty((len(frame), len(values)))
        for i, name in enumerate(values):
            self.x[:, i], bad = _frame._numbers(frame[name])
            self.reasons |= bad
        self.columns = {str(name): _texts(_frame._column(frame, name, None)) for name in also}
        self.settings = {"text": _settings.text_of(source, keywords), "name": source[1], "zone": zone, "untimed": moments is None}
        self.settings["values"] = [str(name) for name in values]

    def _keys(self, parts: list[Any]) -> _frame.Array:
        """Sets the parts of each key, and returns the key of each row. A missed choice has no key of its own."""
        self.originals: dict[str, Any] = {}
        if not parts:
            self.keys = [[str(self.values[0]) if self.values else "x"]]
            return np.zeros(len(self.frame), np.intp)
        found = [pd.factorize(part, use_na_sentinel=True) for part in parts]
        for codes, _ in found:
            self.reasons |= dict.fromkeys(np.flatnonzero(codes < 0).tolist(), "the row has no key")
        both, codes = np.unique(np.stack([codes for codes, _ in found], 1), axis=0, return_inverse=True)
        self.keys = [[str(names[i]) for i, (_, names) in zip(row, found, strict=True)] for row in both.tolist()]
        if len(parts) == 1:
            self.originals = {str(name): name for name in found[0][1]}
        return np.asarray(codes.reshape(-1), np.intp)

    def ask(self, request: dict[str, Any]) -> _Tables:
        """Returns the tables of a request, with times in the zone of the frame."""
        good = np.ones(len(self.frame), bool)
        good[list(self.reasons)] = False
        rows = np.flatnonzero(good)
        columns = {name: [cells[i] for i in rows.tolist()] for name, cells in self.columns.items()}
        about = {"key": self.names, "keys": self.keys, "columns": columns, "length": len(self.values)}
        head = json.dumps({"settings": self.settings, "request": request | about, "rows": len(rows)}).encode()
        parts = [_client._LENGTH.pack(len(head)), head, self.codes[rows].astype("<i4").tobytes()]
        parts += [self.times[rows].astype("<i8").tobytes(), np.ascontiguousarray(self.x[rows], "<f8").tobytes()]
        view = _asked(b"".join(parts), str(request["do"]))
        texts = []
        while view:
            (n,) = _client._LENGTH.unpack_from(view)
            texts.append(bytes(view[4 : 4 + n]))
            view = view[4 + n :]
        answer = json.loads(texts[0])
        self.reasons |= {int(rows[r["row"]]): r["reason"] for r in answer["rejected"]}
        if self.reasons:
            first = min(self.reasons)
            n, reason = len(self.reasons), self.reasons[first]
            some = "1 row was" if n == 1 else f"{n} rows were"
            warnings.warn(f"hafvf: {some} rejected, the first is row {first}: {reason}", stacklevel=3)
        tables = {}
        for about, text in zip(answer["tables"], texts[1:], strict=True):
            index = None if about["rows"] is None else self.frame.index[rows[about["rows"]]]
            tables[about["name"]] = self._table(about, text, index)
        return _Tables(tables, answer)

    def times_of(self, texts: Any) -> Any:
        """Returns times for the texts of the program, in the zone of the frame or in UTC."""
        times = pd.Series(pd.to_datetime(pd.Series(texts, dtype=object), utc=True, format="ISO8601")).astype(
            "datetime64[ns, UTC]"
        )
        return (times.dt.tz_convert(self.dtype.tz) if isinstance(self.dtype, pd.DatetimeTZDtype) else times).array

    def _table(self, about: dict[str, Any], text: bytes, index: pd.Index[Any] | None) -> pd.DataFrame:
        lines = [line.split("\t") for line in text.decode().split("\n")[:-1]]
        out: dict[str, Any] = {}
        for i, column in enumerate(about["columns"]):
            name, kind = column["Path"], column["Kind"]
            name = name if about["name"] == "fit" else name.replace(".", "_")
            cells = "[" + ",".join(line[i] or "null" for line in lines) + "]"
            found = json.loads(cells, parse_int=float if kind == "number" else int)
            if kind == "number":
                numbers = np.array(found, np.float64)
                whole = name in _WHOLE or name.endswith("_n")
                out[name] = pd.array(numbers, "Float64").astype("Int64") if whole else numbers
            elif kind == "bool":
                out[name] = pd.array(found, "boolean")
            elif kind == "time":
                out[name] = self.times_of(found)
            elif any(isinstance(v, list) for v in found):
                for k in range(max(len(v) for v in found if isinstance(v, list))):
                    part = [v[k] if isinstance(v, list) and k < len(v) else None for v in found]
                    out[f"{name}_{k}"] = np.array(part, np.float64)
            elif name == "key" and self.originals:
                out[name] = [self.originals.get(v, v) for v in found]
            else:
                out[name] = found
        return pd.DataFrame(out, index=index)


def _texts(column: Any) -> list[str]:
    """Returns the cells of a column as the program reads them from a file."""
    return ["" if v is None or v is pd.NaT or v is pd.NA or v != v else str(v) for v in column.tolist()]


def _bar(earlier: Any, what: str, total: int) -> Any:
    from tqdm.auto import tqdm

    if earlier is not None:
        earlier.close()
    return tqdm(desc=what, total=total or None, delay=0.5)


def _asked(payload: bytes, what: str) -> memoryview:
    """Returns the answer to a request for tables. It shows the progress of a long call if tqdm is installed."""

    def do(child: _client._Child) -> memoryview:
        bar: Any = None
        try:
            child._write(_client.head_of(b"r", payload))
            child._write(payload)
            while True:
                (n,) = _client._LENGTH.unpack(child._read(_client._LENGTH.size))
                answer = memoryview(child._read(n))
                if answer[0] != ord("p"):
                    return _client.opened(answer)
                at = json.loads(bytes(_client.opened(answer)))
                with contextlib.suppress(ImportError):
                    if bar is None or at["done"] < bar.n:  # a new pass over the keys
                        bar = _bar(bar, f"hafvf.{what}", at["total"])
                    bar.update(at["done"] - bar.n)
        except (OSError, EOFError) as e:
            raise _client._DeadError(repr(e)) from e
        finally:
            if bar is not None:
                bar.close()

    try:
        return _client._the_pool().call(do)  # type: ignore[no-any-return]
    except _client.HafvfError as e:
        raise _client.HafvfError(e.code, re.sub(r"--([a-z])", r"\1", str(e))) from None
