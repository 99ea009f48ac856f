"""A node of Beam pipelines in Python: each key of a bounded collection through its filter.

>>> found = readings | hafvf.beam.Filter(detect=True)  # of KV(key, (time, x))
>>> found.alerts | beam.Map(print)
>>> found.estimates, found.rejected
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from . import _client, _settings, _times

Observation: TypeAlias = tuple[int, list[float], str]  # nanoseconds, numbers, id


class Filter(beam.PTransform):
    """Filters a bounded collection, one filter a key, in the order of the times.

    The result has three collections of dicts, with the fields of the records of ``hafvf run`` and their times as event
    times: ``estimates``, ``alerts``, and ``rejected`` with ``key``, ``id`` and ``reason``.
    """

    def __init__(
        self,
        settings: _settings.Settings = None,
        *,
        observe: Callable[[Any], tuple[Any, ...]] | None = None,
        values: Sequence[str] = ("x",),
        zone: str = "UTC",
        **keywords: Any,
    ) -> None:
        """Takes settings as ``hafvf.run`` does.

        Args:
            settings: a dict, or the path of a file of YAML.
            observe: makes (key, time, x) or (key, time, x, id) of an element. Default: of KV(key, (time, x)). Without a
                time the event time of the element counts.
            values: the names of the numbers of a vector.
            zone: of times without an offset.
            **keywords: settings, key by key.

        Raises:
            HafvfError: the settings are wrong.
            ValueError: the order is that of arrival, which a bounded collection does not have.
        """
        super().__init__()
        self._model = _settings.model_of(settings, keywords, values=values, zone=zone, untimed=False, endless=False)
        if self._model.described().arrival:
            raise ValueError("order: a bounded collection has no order of arrival; event_time is the one that it can have")
        self._observe = observe or _observe
        self._length = len(values)
        self._zone = zone

    def expand(self, elements: Any) -> Any:
        """Refuses what it cannot filter where the pipeline is built."""
        if not isinstance(elements.windowing.windowfn, GlobalWindows):
            raise ValueError("hafvf.beam.Filter takes a collection in the global window: filter before WindowInto")
        if not elements.is_bounded:
            raise ValueError("hafvf.beam.Filter takes bounded collections; for streams there is the program, hafvf run")
        observed = elements | "Observe" >> beam.ParDo(_Observe(self._observe, self._length, self._zone)).with_outputs(
            "rejected", main="observed"
        )
        latest = observed.observed | "Times" >> beam.Map(_time_of) | "Latest" >> beam.CombineGlobally(_latest)
        found = (
            observed.observed
            | "Keys" >> beam.GroupByKey()
            | "Filter"
            >> beam.ParDo(_Filter(self._model), AsSingleton(latest)).with_outputs("alerts", "rejected", main="estimates")
        )
        rejected = (observed.rejected, found.rejected) | "Rejected" >> beam.Flatten()
        return Found(found.estimates, found.alerts, rejected)


class Found:
    """The collections of a Filter."""

    def __init__(self, estimates: Any, alerts: Any, rejected: Any) -> None:
        """Takes them."""
        self.estimates, self.alerts, self.rejected = estimates, alerts, rejected


def _observe(element: Any) -> tuple[Any, ...]:
    key, (time, x) = element
    return key, time, x


def _time_of(keyed: tuple[str, Observation]) -> int:
    return keyed[1][0]


def _latest(times: Iterable[int]) -> int:
    return max(times, default=_client.NONE)


class _Observe(beam.DoFn):
    def __init__(self, observe: Callable[[Any], tuple[Any, ...]], length: int, zone: str) -> None:
        self.observe, self.length, self.zone = observe, length, zone

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        key: Any = None
        try:
            key, time, x, *rest = self.observe(element)
            if time is None:
                nanos = timestamp.micros * 1000
                nanos = nanos if abs(nanos) <= _client.END else _client.NONE  # an element that has none
            else:
                nanos = _times.one(time, self.zone)
            numbers = np.asarray(x, np.float64).reshape(-1).tolist()
            if len(numbers) != self.length:
                raise ValueError(f"{len(numbers)} numbers where {self.length} are due")
            if key is None:
                raise ValueError("the element has no key")
            yield str(key), (nanos, numbers, str(rest[0]) if rest else "")
        except (TypeError, ValueError) as e:
            yield TaggedOutput("rejected", {"key": key, "id": "", "reason": str(e), "element": repr(element)})


class _Filter(beam.DoFn):
    def __init__(self, model: _client.Model) -> None:
        self.model = model

    def process(self, element: tuple[str, Iterable[Observation]], latest: int) -> Iterator[Any]:
        key, grouped = element
        observations = sorted(grouped, key=lambda o: (o[0], o[2]))
        state: bytes | None = None
        for first in range(0, len(observations), _client.MOST_ROWS):
            part = observations[first : first + _client.MOST_ROWS]
            last = first + len(part) == len(observations)
            answer = self.model.ask(
                [(key, state, len(part))],
                np.array([o[0] for o in part], np.int64),
                np.array([o[1] for o in part], np.float64),
                horizon=_client.END if last else _client.NONE,
                now=latest,
                ids=[o[2] for o in part],
                columns=False,
                records=True,
            )
            state = answer.states[0]
            yield from map(_stamped, _client.lines(answer.records))
            for alert in _client.lines(answer.alerts):
                yield TaggedOutput("alerts", _stamped(alert))
            for place, reason in answer.rejects:
                yield TaggedOutput("rejected", {"key": key, "id": part[place][2], "reason": reason, "element": repr(part[place])})


def _stamped(record: dict[str, Any]) -> Any:
    """Returns a record with its time as event time."""
    return TimestampedValue(record, Timestamp.from_rfc3339(record["time"]) if record["time"] else Timestamp(0))
