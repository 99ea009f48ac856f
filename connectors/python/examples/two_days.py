"""A frame a day: each day goes on from the states of the day before."""

from pathlib import Path

import pandas as pd

import hafvf

df = pd.read_csv(Path(__file__).parents[3] / "testdata/nab/cloud.csv", parse_dates=["time"])
states: dict[str, bytes] = {}
for day, rows in df.groupby(df["time"].dt.date):
    found = hafvf.run(rows, detect=True, states=states)
    states = found.states  # pickle them, or put them into a table: key and bytes
    for message in found.alerts["message"]:
        print(day, message)
