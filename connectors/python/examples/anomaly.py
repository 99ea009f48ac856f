"""The detector in apache_beam.ml.anomaly: prints the rows that raise an alarm, in the order of arrival."""

from pathlib import Path

import apache_beam as beam
import pandas as pd
from apache_beam.ml.anomaly.transforms import AnomalyDetection

from hafvf.anomaly import HAFVF

df = pd.read_csv(Path(__file__).parents[3] / "testdata/nab/cloud.csv")
readings = [(key, beam.Row(time=time, x=x)) for key, time, x in zip(df["key"], df["time"], df["x"], strict=True)]
with beam.Pipeline(runner="FnApiRunner") as p:
    results = p | beam.Create(readings[:6000]) | AnomalyDetection(HAFVF(time="time"))
    (
        results
        | beam.Filter(lambda keyed: next(iter(keyed[1].predictions)).label == 1)
        | beam.MapTuple(lambda key, result: f"{result.example.time} {key}: {result.example.x}")
        | beam.Map(print)
    )
