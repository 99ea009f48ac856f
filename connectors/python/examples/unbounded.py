"""A Beam pipeline over a stream: reports alarms when the watermark passes their times, and keys that fall silent.

TestStream generates the stream here. In production, use a source such as ReadFromPubSub or ReadFromKafka whose elements have
the times of their observations as event times.
"""

from datetime import datetime, timedelta, timezone

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue

import hafvf.beam

rng = np.random.default_rng(3)
start = datetime(2026, 1, 1, tzinfo=timezone.utc)
readings = TestStream(coder=beam.coders.FastPrimitivesCoder())
for hour in range(12):
    minutes = [60 * hour + int(m) for m in rng.permutation(60)]  # out of order within an hour
    pump = [("pump", m, rng.normal(20 if m < 540 else 26, 1)) for m in minutes]  # changes after nine hours
    fan = [("fan", m, rng.normal(5, 0.5)) for m in minutes if m < 480]  # falls silent after eight hours
    stamped = [TimestampedValue((key, (None, x)), (start + timedelta(minutes=m)).timestamp()) for key, m, x in pump + fan]
    readings = readings.add_elements(stamped).advance_watermark_to((start + timedelta(hours=hour + 1)).timestamp())
with beam.Pipeline("BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as p:
    found = p | readings.advance_watermark_to_infinity() | hafvf.beam.Filter(detect=True, silence=True)
    found.alerts | "Messages" >> beam.Map(lambda alert: alert["message"]) | beam.Map(print)
