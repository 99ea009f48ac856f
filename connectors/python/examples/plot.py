"""Plots the values of a series, their usual range and the alarms with matplotlib, to alarms.png."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import hafvf

df = pd.read_csv(Path(__file__).parents[3] / "testdata/nab/cloud.csv")
df = df[df["key"] == "rds_cpu_e47b3b"]
result = hafvf.run(df, detect=True)
estimates, alarms = result.estimates, result.alerts
usual, sd = estimates["detect_usual_mean"], estimates["detect_usual_sd"]
figure, axes = plt.subplots(figsize=(11, 4), layout="constrained")
axes.fill_between(estimates["time"], usual - 2 * sd, usual + 2 * sd, alpha=0.3, label="usual ± 2 sd")
axes.plot(estimates["time"], estimates["x"], linewidth=0.6, color="black", label="x")
axes.plot(alarms["time"], alarms["x"], "o", color="red", label="alarm")
axes.set(title=df["key"].iloc[0], xlabel="UTC", ylabel="CPU, %")
axes.legend()
figure.savefig("alarms.png", dpi=120)
