"""One frame per day: each day resumes from the states of the previous day."""

from pathlib import Path

import pandas as pd

import hafvf

df = pd.read_csv(Path(__file__).parents[3] / "testdata/nab/cloud.csv", parse_dates=["time"])
states: dict[str, bytes] = {}
for day, rows in df.groupby(df["time"].dt.date):
    found = hafvf.run(rows, detect=True, states=states)
    states = found.states  # to store them, pickle them or write them to a table of key and bytes
    for message in found.alerts["message"]:
        print(day, message)
