"""Filters observations one at a time, and reports keys that fall silent."""

from pathlib import Path

import pandas as pd

import hafvf

df = pd.read_csv(Path(__file__).parents[3] / "testdata/nab/cloud.csv").sort_values("time", kind="stable")
df = df[df["key"].str.startswith("rds")]
stream = hafvf.Stream(detect=True, silence={"after": "2h"})
for key, time, x in zip(df["key"], df["time"], df["x"], strict=True):
    stream.update(key, time, x)
    for alarm in stream.alerts():
        print(alarm["message"])
for alarm in stream.alerts(now="2014-04-28T00:00:00Z"):
    print(alarm["message"])
