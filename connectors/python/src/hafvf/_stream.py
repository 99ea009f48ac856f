"""One observation after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _client, _settings, _times


class RejectedError(ValueError):
    """An observation that was not learned. The message is the reason, and the stream is as before."""


class Stream:
    """Filters of many keys, one observation after the other.

    The states of the keys are in ``states``. A pickled stream goes on where it was.

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
        """Takes settings as ``run`` does, and states of a result or of another stream.

        The values are the names of the numbers of a vector.
        """
        self.states: dict[str, bytes] = dict(states or {})
        self._zone = zone
        source = _settings.read(settings)
        self._model = _settings.endless(_settings.model_of(source, keywords, values=values, zone=zone, untimed=False))
        self._alerts: list[dict[str, Any]] = []

    def update(self, key: Any, time: Any, x: float | list[float], id: str = "") -> list[dict[str, Any]]:
        """Learns an observation, and returns the records that are due: one, or none or several with a lateness.

        Args:
            key: of the series; its text counts.
            time: a datetime, a text or a number as in a file; None with ``order="arrival"``. Without a zone it is of the
                stream's zone.
            x: a number, or a vector. NaN is missing.
            id: repeated by the record and the alarm.

        Raises:
            RejectedError: the observation is late, out of the domain of the family, or none.
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
        """Returns the alarms since the last call, those of keys that are silent at a time among them."""
        if now is not None:
            self._all(now=_times.one(now, self._zone))
        found, self._alerts = self._alerts, []
        return found

    def flush(self) -> list[dict[str, Any]]:
        """Returns the records of what still waits, as at the end of an input."""
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
