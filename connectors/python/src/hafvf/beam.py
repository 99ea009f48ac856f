"""A transform for Beam pipelines in Python: it filters a collection with one filter per key.

>>> found = readings | hafvf.beam.Filter(detect=True)  # of KV(key, (time, x))
>>> found.alerts | beam.Map(print)
>>> found.estimates, found.rejected

FilterRows does the same for rows with a schema, for Beam YAML and SQL.
"""

from __future__ import annotations

import logging
import math
import struct
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, TimestampedValue
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.utils.timestamp import Timestamp

from . import _client, _settings, _times

_log = logging.getLogger("hafvf")
_ALARMS, _REJECTED = Metrics.counter("hafvf", "alarms"), Metrics.counter("hafvf", "rejected")
_logged: set[bool] = set()  # has an element if this process has logged a rejected element
_CLOCK = struct.Struct("<qq?")
_MILLISECOND = 10**6  # nanoseconds


class Filter(beam.PTransform):
    """Filters a collection in the order of its times, with one filter per key.

    The result has three collections of dicts: ``estimates`` and ``alerts`` with the fields of the records of ``hafvf run``,
    and ``rejected`` with ``key``, ``id``, ``reason`` and ``element``. Their times are the event times.

    A bounded collection is grouped by key. In an unbounded collection an observation waits until the watermark has passed
    its time, and the runner stores the states of the keys.
    """

    def __init__(
        self,
        settings: _settings.Settings = None,
        *,
        observe: Callable[[Any], tuple[Any, ...]] | None = None,
        values: Sequence[str] = ("x",),
        zone: str = "UTC",
        wait: bool = True,
        migrate: bool = False,
        **keywords: Any,
    ) -> None:
        """Makes a transform with settings as ``hafvf.run`` takes them.

        Args:
            settings: a dict, or the path of a YAML file.
            observe: a function that converts an element to (key, time, x) or (key, time, x, id). Default: for elements
                KV(key, (time, x)). If the time is None, the event time of the element is used.
            values: the names of the components of a vector.
            zone: the time zone for times without an offset.
            wait: whether observations wait for the watermark. ``lateness`` then has no effect. With False, they are filtered
                as they arrive, by ``order`` and ``lateness``.
            migrate: whether to carry over states of other settings, as by ``hafvf run --migrate``. With False, such states
                end the run.
            **keywords: settings as keywords.

        Raises:
            HafvfError: the settings are wrong.
            ValueError: the order is arrival and wait is True.
        """
        super().__init__()
        source = _settings.read(settings)
        if wait and "lateness" in source[2] | keywords:
            keywords["lateness"] = "0s"
        self._model = _settings.model_of(source, keywords, values=values, zone=zone, untimed=False)
        if wait and self._model.described().arrival:
            raise ValueError("order: arrival needs wait=False")
        self._observe = observe or _observe
        self._length, self._zone = len(values), zone
        self._wait, self._migrate = wait, migrate

    def expand(self, elements: Any) -> Any:
        """Builds the transform. It raises ValueError if the collection is not in the global window."""
        if not isinstance(elements.windowing.windowfn, GlobalWindows):
            raise ValueError("hafvf.beam.Filter takes a collection in the global window: filter before WindowInto")
        model = self._model if elements.is_bounded else _settings.endless(self._model)
        timed = not model.described().arrival
        observed = elements | "Observe" >> beam.ParDo(_Observe(self._observe, self._length, self._zone, timed)).with_outputs(
            "rejected", main="observed"
        )
        keyed = observed.observed
        keyed.element_type = beam.typehints.KV[str, bytes]
        if elements.is_bounded and self._wait:
            latest = keyed | "Times" >> beam.Map(_time_of) | "Latest" >> beam.CombineGlobally(_latest)
            node = beam.ParDo(_Grouped(model, self._length), AsSingleton(latest))
            keyed = keyed | "Keys" >> beam.GroupByKey()
        else:
            node = beam.ParDo(_Streamed(model, self._length, self._wait, self._migrate))
        found = keyed | "Filter" >> node.with_outputs("alerts", "rejected", main="estimates")
        rejected = (observed.rejected, found.rejected) | "Rejected" >> beam.Flatten()
        return Found(found.estimates, found.alerts, rejected)


class Found:
    """The output collections of a Filter."""

    def __init__(self, estimates: Any, alerts: Any, rejected: Any) -> None:
        """Makes a Found of the three collections."""
        self.estimates, self.alerts, self.rejected = estimates, alerts, rejected
        for collection in (estimates, alerts, rejected):
            collection.element_type = beam.typehints.Dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError with the names of the collections."""
        raise AttributeError(f"a Filter has no {name}: it has estimates, alerts and rejected")

    def __or__(self, transform: Any = None) -> Any:
        """Raises TypeError, because a Found is no collection."""
        raise TypeError("a Filter returns three collections: use its .estimates, .alerts or .rejected")

    __iter__ = __or__


class FilterRows(beam.PTransform):
    """Filters rows with a schema.

    The result is a dict of three collections of rows, as Beam YAML names outputs: ``estimates``, ``alerts`` and
    ``rejected``. Their fields are the columns of ``hafvf.run`` with brief records. Times are timestamps, and unknown values
    are null.
    """

    def __init__(
        self,
        key: str | None = None,
        time: str | None = None,
        values: str | Sequence[str] = "x",
        id: str | None = None,
        **arguments: Any,
    ) -> None:
        """Makes a transform with the names of fields and the arguments of ``Filter``.

        Args:
            key: the field of keys. Default: ``key`` if there is one, otherwise all rows are one series.
            time: the field of times. Default: ``time`` if there is one, otherwise the event time of a row is used.
            values: the field of the values. A list of fields is a vector.
            id: a field of ids, which estimates and alerts repeat. Default: none.
            **arguments: ``settings``, ``zone``, ``wait``, ``migrate``, and settings as keywords.

        Raises:
            HafvfError: the settings are wrong.
        """
        super().__init__()
        self._fields = key, time, id
        self._values = [values] if isinstance(values, str) else list(values)
        self._filter = Filter(values=self._values, **arguments)

    def expand(self, rows: Any) -> dict[str, Any]:
        """Builds the transform. It raises KeyError if the rows lack a field, and TypeError if they have no schema."""
        try:
            there = [name for name, _ in named_fields_from_element_type(rows.element_type)]
        except TypeError:
            raise TypeError("hafvf.beam.FilterRows takes rows with a schema; hafvf.beam.Filter takes other elements") from None
        key, time, id = self._fields
        for name in (key, time, id, *self._values):
            if name is not None and name not in there:
                raise KeyError(f"the rows have no field {name!r}; they have {there}")
        key = key or ("key" if "key" in there else None)
        time = time or ("time" if "time" in there else None)
        self._filter._observe = _RowObserver(key, time, id, self._values)
        found = rows | "Filter" >> self._filter
        described = self._filter._model.described()
        times: dict[str, Any] = {"key": str, "time": Timestamp | None, "id": str | None}
        fields = {"estimates": times | {name: described.type_of(name) for name in described.columns}}
        alert: dict[str, Any] = dict.fromkeys(("kind", "corrects", "episode_id", "episode_state", "level"), str | None)
        alert |= dict.fromkeys(("start", "episode_since", "since"), Timestamp | None)
        alert |= dict.fromkeys(("delay", "odds", "score", "threshold"), float | None)
        alert |= {name: float | None for name in described.columns if name == "x" or name.startswith("x_")}
        fields["alerts"] = times | alert | {"size": float | None, "message": str}
        fields["rejected"] = {"key": str | None, "id": str, "reason": str, "element": str}
        return {
            name: getattr(found, name)
            | f"Rows of {name}" >> beam.Map(_row, of).with_output_types(RowTypeConstraint.from_fields(list(of.items())))
            for name, of in fields.items()
        }


class _RowObserver:
    """Converts a row to an observation by the names of its fields."""

    def __init__(self, key: str | None, time: str | None, id: str | None, values: list[str]) -> None:
        self.key, self.time, self.id, self.values = key, time, id, values

    def __call__(self, row: Any) -> tuple[Any, ...]:
        x = [getattr(row, name) for name in self.values]
        numbers = [math.nan if v is None else v for v in x]
        key = getattr(row, self.key) if self.key else self.values[0]
        return key, getattr(row, self.time) if self.time else None, numbers, (getattr(row, self.id) or "") if self.id else ""


def _row(record: dict[str, Any], fields: dict[str, Any]) -> beam.Row:
    """Converts a record to a row, whose fields are named like the columns of a frame."""
    flat: dict[str, Any] = {}

    def put(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for part, v in value.items():
                put(f"{name}_{part}" if name else part, v)
        elif isinstance(value, list):
            for i, v in enumerate(value):
                put(f"{name}_{i}", v)
        else:
            flat[name] = value

    put("", record)
    found = {}
    for name, of in fields.items():
        value = flat.get(name)
        if value is not None and of == Timestamp | None:
            value = _moment(value)
        elif value is not None and of == float | None:
            value = float(value)
        found[name] = value
    return beam.Row(**found)


def _observe(element: Any) -> tuple[Any, ...]:
    match element:
        case (key, (time, x)):
            return key, time, x
    text = f"the element {element!r:.200} is no KV(key, (time, x)): give observe=, a function that makes (key, time, x) of it"
    raise _WrongFormError(text)


class _WrongFormError(TypeError):
    """An element of the wrong form, which ends the pipeline."""


def _count_rejected(key: Any, reason: str) -> None:
    """Counts a rejected element. The first one of a process is logged."""
    _REJECTED.inc()
    if not _logged:
        _logged.add(True)
        _log.warning("an element of the key %r was rejected: %s; see .rejected and the counter hafvf:rejected", key, reason)


# An observation is packed as bytes: its time in nanoseconds, its numbers and its id.


def _time(packed: bytes) -> int:
    return int.from_bytes(packed[:8], "little", signed=True)


def _millisecond(packed: bytes) -> int:
    return _time(packed) // _MILLISECOND * _MILLISECOND


def _timestamp(nanos: int) -> Timestamp:
    """Returns a time rounded down to milliseconds, the resolution of the timers of runners."""
    return Timestamp(micros=nanos // _MILLISECOND * 1000)


def _moment(text: str) -> Timestamp:
    """Returns the time of a record rounded down to microseconds, the resolution of event times and schemas."""
    return Timestamp(micros=pd.Timestamp(text).value // 1000)


def _time_of(keyed: tuple[str, bytes]) -> int:
    return _time(keyed[1])


def _latest(times: Iterable[int]) -> int:
    return max(times, default=_client.NONE)


class _Observe(beam.DoFn):
    def __init__(self, observe: Callable[[Any], tuple[Any, ...]], length: int, zone: str, timed: bool) -> None:
        self.observe, self.length, self.zone, self.timed = observe, length, zone, timed

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        key: Any = None
        id = ""
        try:
            observed = self.observe(element)
            if not isinstance(observed, (tuple, list)) or len(observed) not in (3, 4):
                text = f"observe has made {observed!r:.200} of an element: it has to return (key, time, x) or (key, time, x, id)"
                raise _WrongFormError(text)
            key, time, x, *rest = observed
            id = str(rest[0]) if rest else ""
            if key is None:
                raise ValueError("the element has no key")
            time = timestamp if time is None else time
            if isinstance(time, Timestamp):
                nanos = time.nanos if hasattr(time, "nanos") else time.micros * 1000  # older versions of Beam have no nanos
                nanos = nanos if abs(nanos) <= _client.END else _client.NONE  # an element without a time
            else:
                nanos = _times.one(time, self.zone)
            if self.timed and nanos == _client.NONE:
                raise ValueError("no time: observations without a time need order: arrival")
            numbers = np.asarray(x, np.float64).reshape(-1).tolist()
            if len(numbers) != self.length:
                raise ValueError(f"{len(numbers)} numbers, expected {self.length}")
            yield str(key), struct.pack(f"<q{self.length}d", nanos, *numbers) + id.encode()
        except (_client.HafvfError, _WrongFormError):
            raise
        except Exception as e:
            reason = str(e) if isinstance(e, (TypeError, ValueError)) else repr(e)
            _count_rejected(key, reason)
            yield TaggedOutput("rejected", {"key": key, "id": id, "reason": reason, "element": repr(element)})


class _Asking(beam.DoFn):
    """A DoFn that filters the observations of one key in the child."""

    def __init__(self, model: _client.Model, length: int) -> None:
        self.model, self.length = model, length

    def order(self, packed: bytes) -> tuple[int, bytes]:
        """Returns the sort key of an observation: its time, then its id."""
        return _time(packed), packed[8 + 8 * self.length :]

    def ask(
        self, key: str, state: bytes | None, packed: Sequence[bytes], horizon: int, now: int, **about: Any
    ) -> Generator[Any, None, tuple[bytes, int]]:
        """Filters observations in their order, in calls of bounded size, and yields the outputs.

        It returns the new state and the deadline of the key. horizon (the time before which no more observations arrive) and
        now (the time up to which to report silences) apply after the last observation.
        """
        ids = 8 + 8 * self.length
        for first in range(0, max(len(packed), 1), _client.MOST_ROWS):
            part = packed[first : first + _client.MOST_ROWS]
            last = first + _client.MOST_ROWS >= len(packed)
            answer = self.model.ask(
                [(key, state, len(part))],
                np.frombuffer(b"".join(p[:8] for p in part), "<i8"),
                np.frombuffer(b"".join(p[8:ids] for p in part), "<f8").reshape(-1, self.length),
                horizon=horizon if last else _client.NONE,
                now=now if last else _client.NONE,
                ids=[p[ids:].decode() for p in part],
                columns=False,
                records=True,
                **about,
            )
            state = answer.states[0]
            for record in _client.lines(answer.records):
                yield _stamped(record, record["time"])
            for alert in _client.lines(answer.alerts):
                _ALARMS.inc()
                yield TaggedOutput("alerts", _stamped(alert, alert["time"]))
            for place, reason in answer.rejects:
                _count_rejected(key, reason)
                yield TaggedOutput("rejected", self.rejected(key, part[place], reason))
        return answer.states[0], answer.deadlines[0]

    def rejected(self, key: str, packed: bytes, reason: str) -> Any:
        """Returns the output for a rejected observation."""
        ids, nanos = 8 + 8 * self.length, _time(packed)
        time = None if nanos == _client.NONE else _times.iso([nanos])[0].isoformat().replace("+00:00", "Z")
        element = (key, time, list(struct.unpack(f"<{self.length}d", packed[8:ids])))
        return _stamped({"key": key, "id": packed[ids:].decode(), "reason": reason, "element": repr(element)}, time)


def _stamped(output: dict[str, Any], time: str | None) -> Any:
    """Returns an output with the time as its event time. Without a time it keeps the event time of its input."""
    return TimestampedValue(output, _moment(time)) if time else output


class _Grouped(_Asking):
    """Filters all observations of a key."""

    def process(self, element: tuple[str, Iterable[bytes]], latest: int) -> Iterator[Any]:
        key, grouped = element
        yield from self.ask(key, None, sorted(grouped, key=self.order), _client.END, latest)


class _Clock:
    """The stored data of a key's timers: due, deadline and ended."""

    def __init__(self, state: Any) -> None:
        self.state, self.before = state, state.read()
        none = _CLOCK.pack(_client.NONE, _client.NONE, False)
        # due: when the first timer fires, or NONE if no observation waits. deadline: the deadline whose timer has fired once.
        # ended: whether the input has ended.
        self.due, self.deadline, self.ended = _CLOCK.unpack(self.before or none)

    def write(self) -> None:
        after = _CLOCK.pack(self.due, self.deadline, self.ended)
        if after != self.before:
            self.state.write(after)


class _Streamed(_Asking):
    """Filters the observations of a key as the watermark passes them, or as they arrive."""

    STATE = ReadModifyWriteStateSpec("state", coders.BytesCoder())
    SETTINGS = ReadModifyWriteStateSpec("settings", coders.BytesCoder())  # the settings that the state was written with
    WAITING = BagStateSpec("waiting", coders.BytesCoder())  # observations that wait for the watermark
    CLOCK = ReadModifyWriteStateSpec("clock", coders.BytesCoder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)  # set to the first observation that waits
    DEADLINE = TimerSpec("deadline", TimeDomain.WATERMARK)  # when the key becomes silent or is forgotten, or an interval ends
    END = TimerSpec("end", TimeDomain.WATERMARK)  # the end of the input

    def __init__(self, model: _client.Model, length: int, wait: bool, migrate: bool) -> None:
        super().__init__(model, length)
        self.wait, self.migrate = wait, migrate

    def process(
        self,
        element: tuple[str, bytes],
        state: Any = beam.DoFn.StateParam(STATE),
        settings: Any = beam.DoFn.StateParam(SETTINGS),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        cell: Any = beam.DoFn.StateParam(CLOCK),
        due: Any = beam.DoFn.TimerParam(DUE),
        deadline: Any = beam.DoFn.TimerParam(DEADLINE),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Any:
        key, packed = element
        if not self.wait:
            return self.learn(key, [packed], _client.NONE, _client.NONE, state, settings, deadline, end)
        waiting.add(packed)
        clock = _Clock(cell)
        clock.ended = False
        at = _millisecond(packed)
        if clock.due == _client.NONE or at < clock.due:
            clock.due = at
            due.set(_timestamp(at), dynamic_timer_tag="0")
        clock.write()
        return ()

    @on_timer(DUE)
    def release(
        self,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        state: Any = beam.DoFn.StateParam(STATE),
        settings: Any = beam.DoFn.StateParam(SETTINGS),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        cell: Any = beam.DoFn.StateParam(CLOCK),
        due: Any = beam.DoFn.TimerParam(DUE),
        deadline: Any = beam.DoFn.TimerParam(DEADLINE),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Any:
        """Filters the observations that the watermark has passed."""
        now, clock = at.micros * 1000, _Clock(cell)
        ready = self.ready(now, waiting, clock, due)
        clock.write()
        return self.learn(key, ready, now, _client.NONE, state, settings, deadline, end) if ready else ()

    @on_timer(DEADLINE)
    def check_deadline(
        self,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        state: Any = beam.DoFn.StateParam(STATE),
        settings: Any = beam.DoFn.StateParam(SETTINGS),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        cell: Any = beam.DoFn.StateParam(CLOCK),
        due: Any = beam.DoFn.TimerParam(DUE),
        deadline: Any = beam.DoFn.TimerParam(DEADLINE),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Any:
        """Filters the observations that the watermark has passed, and checks whether the key is silent or forgotten.

        At the end of the input all timers fire, and no key is silent for that reason. A timer does not know the watermark. But
        a timer that is set again when it fires comes after the timer of the end.
        """
        now, clock = at.micros * 1000, _Clock(cell)
        ready: list[bytes] = []
        if again := clock.deadline == now or clock.ended:
            clock.deadline = _client.NONE
            ready = self.ready(_client.END if clock.ended else now, waiting, clock, due)
        else:
            clock.deadline = now
            deadline.set(at)
        clock.write()
        if not again:
            return ()
        until, silent = (_client.END, _client.NONE) if clock.ended else (now, now)
        return self.learn(key, ready, until, silent, state, settings, deadline, end)

    @on_timer(END)
    def note_end(self, cell: Any = beam.DoFn.StateParam(CLOCK)) -> None:
        """Records that the input has ended."""
        clock = _Clock(cell)
        clock.ended = True
        clock.write()

    def ready(self, now: int, waiting: Any, clock: _Clock, due: Any) -> list[bytes]:
        """Removes and returns the observations that the watermark has passed by now.

        A timer does not know the watermark. So timers are set to the first, second, fourth, eighth, … observation that waits,
        and the runner fires all timers that the watermark has passed together.
        """
        packed = sorted(waiting.read(), key=self.order)
        n = sum(_millisecond(p) <= now for p in packed)
        if n:
            waiting.clear()
            for p in packed[n:]:
                waiting.add(p)
            for i in range((len(packed) - n).bit_length()):
                due.set(_timestamp(_millisecond(packed[n + (1 << i) - 1])), dynamic_timer_tag=str(i))
            clock.due = _millisecond(packed[n]) if n < len(packed) else _client.NONE
        return packed[:n]

    def learn(
        self, key: str, packed: list[bytes], now: int, silent: int, state: Any, settings: Any, deadline: Any, end: Any
    ) -> Iterator[Any]:
        """Filters the given observations and those that wait in the state up to now, and writes the state."""
        described = self.model.described()
        horizon = now if now in (_client.NONE, _client.END) else now - described.patience
        before = state.read()
        written = None
        try:
            after, next_deadline = yield from self.ask(key, before, packed, horizon, silent)
        except _client.HafvfError as e:
            written = settings.read()
            if e.code != "other_config" or not written:
                raise
            about = {"written": zlib.decompress(written).decode(), "migrate": self.migrate}
            after, next_deadline = yield from self.ask(key, before, packed, horizon, silent, **about)
        if not after:
            state.clear()
            settings.clear()
            return
        if after != before:
            state.write(after)
        if not before or written:
            settings.write(zlib.compress(described.settings.encode()))
        if next_deadline != _client.NONE and now != _client.END:
            deadline.set(_timestamp(next_deadline + _MILLISECOND - 1))
            end.set(GlobalWindow().max_timestamp())
