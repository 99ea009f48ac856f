"""A Beam pipeline over a file: prints the alarms of each key as JSON Lines."""

import json
from pathlib import Path

import apache_beam as beam
import pandas as pd

import hafvf.beam

df = pd.read_csv(Path(__file__).parents[3] / "testdata/nab/cloud.csv")
df = df[df["key"].str.startswith("rds")]
readings = [(key, (time, x)) for key, time, x in zip(df["key"], df["time"], df["x"], strict=True)]
with beam.Pipeline(runner="FnApiRunner") as p:
    found = p | beam.Create(readings) | hafvf.beam.Filter(detect=True)
    found.alerts | "As JSON" >> beam.Map(json.dumps) | beam.Map(print)
