"""A detector for ``apache_beam.ml.anomaly``.

>>> rows | AnomalyDetection(hafvf.anomaly.HAFVF(features=["x"]))  # of KV(key, Row(x=…))

AnomalyDetection passes rows to a detector as they arrive, so the order is that of arrival. For the order of event times, for
silences and for records use ``hafvf.beam.Filter``.
"""

from __future__ import annotations

import math
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.ml.anomaly.base import AnomalyDetector
from apache_beam.ml.anomaly.specifiable import specifiable
from apache_beam.ml.anomaly.thresholds import FixedThreshold

from . import _client, _settings, _times


@specifiable(on_demand_init=False, just_in_time_init=False)  # a mistake in the settings fails at once
class HAFVF(AnomalyDetector):
    """Labels a row 1 exactly where ``hafvf run`` with ``order: arrival`` raises an alarm.

    The score is the row's score divided by the threshold of alarms: at least 1 with an alarm, below 1 without. The score is
    NaN, and the label is that of a missing score, during the warm-up, if a number is missing, or if the row is not learned.
    """

    def __init__(
        self,
        features: list[str] | None = None,
        time: str | None = None,
        settings: str | None = None,
        zone: str = "UTC",
        model_id: str | None = None,
        **keywords: Any,
    ) -> None:
        """Makes a detector with settings as ``hafvf.run`` takes them.

        Args:
            features: the fields with the numbers of a row. Default: x.
            time: the field with the time of a row, which gives its hour and day of the week. Default: none.
            settings: the path of a YAML file.
            zone: the time zone for times without an offset.
            model_id: the name of the predictions.
            **keywords: settings as keywords. Without a file, ``detect`` is true.

        Raises:
            HafvfError: the settings are wrong.
        """
        values = features or ["x"]
        super().__init__(model_id=model_id, threshold_criterion=FixedThreshold(1.0))
        if settings is None:
            keywords.setdefault("detect", True)
        keywords |= {"order": "arrival", "records": "full"}
        source = _settings.read(settings)
        self._model = _settings.model_of(source, keywords, values=values, zone=zone, untimed=time is None)
        self._values, self._time, self._zone = values, time, zone
        self._state = self._next = b""

    def score_one(self, x: beam.Row) -> float:
        """Returns the score of a row. ``learn_one`` learns the row. It raises KeyError if the row lacks a field."""
        fields = x._asdict()
        for name in [*self._values, *([self._time] if self._time else [])]:
            if name not in fields:
                raise KeyError(f"the rows have no field {name!r}: give features= or time= of {list(fields)}")
        self._next = self._state
        try:
            numbers = np.array([[math.nan if (v := fields[name]) is None else v for name in self._values]], np.float64)
        except (TypeError, ValueError):
            return math.nan
        texts = [_times.text_of(fields[self._time]) if self._time else ""]
        answer = self._model.ask([("x", self._state, 1)], texts, numbers, columns=False, records=True)
        if answer.rejects and not answer.alerts:
            return math.nan
        self._next = answer.states[0]
        score = math.nan
        for detect in (record["detect"] for record in _client.lines(answer.records)):
            if detect.get("score") is not None:
                score = detect["score"] / detect["threshold"]
        if answer.alerts:
            return score if score >= 1 else 1.0
        return min(score, math.nextafter(1.0, 0.0))

    def learn_one(self, x: beam.Row) -> None:
        """Learns the row of the last ``score_one``."""
        self._state = self._next
