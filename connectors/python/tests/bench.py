"""Measures the cost of an observation: CPU time of Python, CPU time of the child, and wall time. Needs hafvf[beam].

    python tests/bench.py [ROWS]

For pipelines it is the cost of additional rows: the cost of ROWS/5 rows minus the cost of a fifth of these.
"""

import os
import resource
import sys
import time

import apache_beam as beam
import numpy as np
import pandas as pd
from apache_beam.ml.anomaly.detectors.zscore import ZScore
from apache_beam.ml.anomaly.transforms import AnomalyDetection

import hafvf
import hafvf.beam
from hafvf import _client
from hafvf.anomaly import HAFVF

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000


memory_of_children = []


def cpu_of_children():
    total = 0.0
    for child in _client._the_pool().idle:
        with open(f"/proc/{child.process.pid}/status") as file:
            memory_of_children.append(next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmHWM")))
        with open(f"/proc/{child.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def measured(do):
    _client._the_pool().stop()
    hafvf.Stream()  # starts a child
    before, began, children = time.process_time(), time.perf_counter(), cpu_of_children()
    do()
    return np.array([time.process_time() - before, cpu_of_children() - children, time.perf_counter() - began])


def show(what, seconds, rows):
    python, child, wall = seconds / rows * 1e6
    print(f"{what:34s} Python {python:6.1f}  child {child:6.1f}  wall {wall:6.1f} µs", flush=True)


def rows_of(n, keys):
    rng = np.random.default_rng(1)
    steps = np.arange(n) // keys
    time = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(steps * 10, unit="min")
    x = 20 + 5 * np.sin(steps / 23) + rng.normal(size=n)
    return pd.DataFrame({"key": np.arange(n) % keys, "time": time, "x": x})


def pipeline(df, of):
    rows = list(zip(df["key"].astype(str), df["time"], df["x"].tolist(), strict=True))
    with beam.Pipeline(runner="FnApiRunner") as p:
        of(p | beam.Create(rows) | beam.Reshuffle()) | beam.Filter(lambda _: False)


class Unbounded(beam.PTransform):
    def expand(self, rows):
        rows.is_bounded = False
        return (rows | hafvf.beam.Filter(observe=tuple, detect=True)).estimates


def anomaly(rows, detector):
    return rows | beam.MapTuple(lambda key, time, x: (key, beam.Row(x=x))) | AnomalyDetection(detector)


PIPELINES = {
    "nothing": lambda rows: rows,
    "ml.anomaly ZScore": lambda rows: anomaly(rows, ZScore(features=["x"])),
    "Filter, bounded": lambda rows: (rows | hafvf.beam.Filter(observe=tuple, detect=True)).estimates,
    "Filter, unbounded": lambda rows: rows | Unbounded(),
    "Filter, wait=False": lambda rows: (
        (rows | hafvf.beam.Filter(observe=tuple, detect=True, wait=False, order="arrival")).estimates
    ),
    "ml.anomaly HAFVF": lambda rows: anomaly(rows, HAFVF()),
}

if __name__ == "__main__":
    df = rows_of(ROWS, 100)
    for detect in (True, False):
        show(f"pandas, detect={detect}", measured(lambda detect=detect: hafvf.run(df, detect=detect)), ROWS)
    stream = hafvf.Stream(detect=True)
    n = ROWS // 5
    df = rows_of(n, 10)
    some = list(df.itertuples(index=False))
    show("Stream.update", measured(lambda: [stream.update(*row) for row in some]), len(some))
    stream, rows = hafvf.Stream(detect=True), [tuple(row) for row in some]
    many = measured(lambda: [stream.update_many(rows[i : i + 1000]) for i in range(0, n, 1000)])
    show("Stream.update_many, 1,000 rows", many, n)
    for name, of in PIPELINES.items():
        few, many = (measured(lambda rows=rows, of=of: pipeline(df[:rows], of)) for rows in (n // 5, n))
        show(f"Beam: {name}", many - few, n - n // 5)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"maximum memory: Python {memory} MB, child {max(memory_of_children)} MB")
