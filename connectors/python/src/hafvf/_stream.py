"""Filtering of observations one at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _client, _settings, _times


class RejectedError(ValueError):
    """The error of an observation that was not learned. The message is the reason."""


class Stream:
    """Filters for many keys, which learn one observation at a time.

    The states of the keys are in ``states``. Several threads can use one stream. A stream can be pickled; the unpickled stream
    resumes where it was.

    >>> s = Stream(detect=True)
    >>> for record in s.update("pump", "2026-01-02T03:04:05Z", 1.2):
    ...     print(record["predicted"])
    """

    def __init__(
        self,
        settings: _settings.Settings = None,
        *,
        values: Sequence[str] = ("x",),
        states: Mapping[str, bytes] | None = None,
        zone: str = "UTC",
        **keywords: Any,
    ) -> None:
        """Makes a stream with settings as ``run`` takes them, and with the states of a result or of another stream.

        ``values`` names the components of a vector. ``zone`` is the time zone for times without an offset.
        """
        self.states = _client.States.of(states)
        self._zone = zone
        source = _settings.read(settings)
        self._model = _settings.endless(_settings.model_of(source, keywords, values=values, zone=zone, untimed=False))
        self._written = self._model.others(self.states)
        self._alerts: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Returns a copy of the stream's data, without the lock."""
        with self._lock:
            about = {name: value for name, value in self.__dict__.items() if name != "_lock"}
            return about | {"states": _client.States.of(self.states), "_alerts": list(self._alerts)}

    def __setstate__(self, about: dict[str, Any]) -> None:
        """Restores the data of ``__getstate__``."""
        self.__dict__.update(about, _lock=threading.Lock())

    def update(self, key: Any, time: Any, x: float | list[float], id: str = "") -> list[dict[str, Any]]:
        """Learns an observation and returns the records that are due: one, or with a lateness none or several.

        Args:
            key: the key of the series. Keys with the same text are the same key.
            time: a datetime, or a text or number as in a file. It may be None with ``order="arrival"``. A time without an
                offset is in the stream's zone.
            x: a number, or a vector. NaN means missing.
            id: an id that the record and the alarm repeat.

        Raises:
            RejectedError: the observation is late, outside the domain of the family, or not an observation.
        """
        records, rejected = self.update_many([(key, time, x, id)])
        if rejected:
            raise RejectedError(rejected[0]["reason"])
        return records

    def update_many(self, rows: Iterable[Sequence[Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Learns observations, each (key, time, x) or (key, time, x, id) as for ``update``.

        It costs about a seventh of single updates. The observations of a key are learned in the order of the rows.

        Returns:
            The records that are due, key by key, and the rejected observations: ``row`` (their position), ``key`` and
            ``reason``.
        """
        records: list[dict[str, Any]] = []
        rejected: list[dict[str, Any]] = []
        parts: dict[str, list[tuple[int, str, list[float], str]]] = {}
        length = n = 0
        with self._lock:
            most = self._model.described().most_rows
            for i, (key, time, x, *id) in enumerate(rows):
                name = str(key)
                try:
                    numbers = [x] if type(x) is float else np.asarray(x, np.float64).reshape(-1).tolist()
                    if n and len(numbers) != length:
                        raise ValueError(f"{len(numbers)} numbers, the rows before have {length}")
                except (ValueError, TypeError) as e:
                    rejected.append({"row": i, "key": name, "reason": str(e)})
                    continue
                length = len(numbers)
                parts.setdefault(name, []).append((i, _times.text_of(time), numbers, str(id[0]) if id else ""))
                n += 1
                if n == most:
                    self._learn(parts, length, records, rejected)
                    parts, n = {}, 0
            if n:
                self._learn(parts, length, records, rejected)
        return records, rejected

    def _learn(
        self,
        parts: dict[str, list[tuple[int, str, list[float], str]]],
        length: int,
        records: list[dict[str, Any]],
        rejected: list[dict[str, Any]],
    ) -> None:
        """Filters the rows of each key, and appends their records and the rejected rows."""
        rows = [row for part in parts.values() for row in part]
        answer = self._model.ask(
            [(name, self.states.get(name), len(part)) for name, part in parts.items()],
            [text for _, text, _, _ in rows],
            np.array([numbers for _, _, numbers, _ in rows]).reshape(-1, length),
            ids=[id for _, _, _, id in rows] if any(id for _, _, _, id in rows) else None,
            columns=False,
            records=True,
            written=self._written,
        )
        keys = [name for name, part in parts.items() for _ in part]
        rejected += [{"row": rows[place][0], "key": keys[place], "reason": reason} for place, reason in answer.rejects]
        self._keep(parts, answer)
        records += _client.lines(answer.records)

    def alerts(self, now: Any = None) -> list[dict[str, Any]]:
        """Returns the alarms since the last call. If now is given, they include the silences up to that time."""
        if now is not None:
            self._all(now=_times.one(now, self._zone))
        with self._lock:
            found, self._alerts = self._alerts, []
        return found

    def flush(self) -> list[dict[str, Any]]:
        """Returns the records of all observations that still wait, as at the end of an input."""
        return self._all(horizon=_client.END)

    def _all(self, horizon: int = _client.NONE, now: int = _client.NONE) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        nothing = np.zeros(0, np.int64)
        with self._lock:
            names = list(self.states)
            for lo in range(0, len(names), _client.MOST_ROWS):
                part = [(name, self.states[name], 0) for name in names[lo : lo + _client.MOST_ROWS]]
                answer = self._model.ask(
                    part, nothing, nothing, horizon=horizon, now=now, columns=False, records=True, written=self._written
                )
                self._keep((name for name, _, _ in part), answer)
                records += _client.lines(answer.records)
        return records

    def _keep(self, names: Iterable[str], answer: _client.Answer) -> None:
        _client.keep(self.states, names, answer.states)
        self._alerts += _client.lines(answer.alerts)
