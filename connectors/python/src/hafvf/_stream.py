"""Filtering of observations one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _client, _settings, _times


class RejectedError(ValueError):
    """The error of an observation that was not learned. The message is the reason. The stream is unchanged."""


class Stream:
    """Filters for many keys, which learn one observation at a time.

    The states of the keys are in ``states``. A stream can be pickled; the unpickled stream resumes where it was.

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
        self.states: dict[str, bytes] = dict(states or {})
        self._zone = zone
        source = _settings.read(settings)
        self._model = _settings.endless(_settings.model_of(source, keywords, values=values, zone=zone, untimed=False))
        self._alerts: list[dict[str, Any]] = []

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
        try:
            times = np.array([_times.one(time, self._zone)])
            values = np.asarray(x, np.float64).reshape(1, -1)
        except (ValueError, TypeError) as e:
            raise RejectedError(str(e)) from e
        name = str(key)
        answer = self._model.ask(
            [(name, self.states.get(name), 1)], times, values, ids=[id] if id else None, columns=False, records=True
        )
        if answer.rejects:
            raise RejectedError(answer.rejects[0][1])
        self._alerts += _client.lines(answer.alerts)
        _client.keep(self.states, [name], answer.states)
        return _client.lines(answer.records)

    def alerts(self, now: Any = None) -> list[dict[str, Any]]:
        """Returns the alarms since the last call. If now is given, they include the silences up to that time."""
        if now is not None:
            self._all(now=_times.one(now, self._zone))
        found, self._alerts = self._alerts, []
        return found

    def flush(self) -> list[dict[str, Any]]:
        """Returns the records of all observations that still wait, as at the end of an input."""
        return self._all(horizon=_client.END)

    def _all(self, horizon: int = _client.NONE, now: int = _client.NONE) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        names = list(self.states)
        for lo in range(0, len(names), _client.MOST_ROWS):
            part = [(name, self.states[name], 0) for name in names[lo : lo + _client.MOST_ROWS]]
            nothing = np.zeros(0)
            answer = self._model.ask(
                part, nothing.astype(np.int64), nothing, horizon=horizon, now=now, columns=False, records=True
            )
            _client.keep(self.states, (name for name, _, _ in part), answer.states)
            self._alerts += _client.lines(answer.alerts)
            records += _client.lines(answer.records)
        return records
