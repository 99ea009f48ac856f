"""Estimates from the choices in an experiment how fast each subject forgets, 1 - top, and how firmly they choose, beta."""

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax

import hafvf

# Before each trial, six subjects predict whether the outcome will be 1. Its probability changes every 40 trials.
rng = np.random.default_rng(7)
subjects = pd.DataFrame({"subject": list("abcdef"), "top": [0.7, 0.8, 0.85, 0.9, 0.94, 0.97], "beta": [4, 8, 3, 6, 5, 7]})
trials = subjects.loc[subjects.index.repeat(400)].reset_index(drop=True)
chance = np.where(np.arange(len(trials)) // 40 % 2, 0.8, 0.2)
trials["outcome"] = (rng.random(len(trials)) < chance).astype(int)


def predicted(rows, top):
    about = {"family": "bernoulli", "levels": [], "top": top, "order": "arrival"}
    return hafvf.filter(rows, key="subject", values="outcome", **about)["predicted_mean"]


means = pd.concat([predicted(own, own["top"].iloc[0]) for _, own in trials.groupby("subject")])
trials["choice"] = (rng.random(len(trials)) < expit(trials["beta"] * (2 * means - 1))).astype(int)
trials[["subject", "outcome", "choice"]].to_csv("trials.csv", index=False)

# The fit: for each top, the beta with the largest likelihood of the choices.
found = []
for top in np.arange(0.5, 0.995, 0.01):
    trials["m"] = predicted(trials, top)
    for subject, own in trials.groupby("subject"):
        chances, choices = np.column_stack([1 - own["m"], own["m"]]), own["choice"].to_numpy()

        def loss(log_beta, chances=chances, choices=choices):
            return -log_softmax(np.exp(log_beta) * chances, axis=1)[np.arange(len(choices)), choices].sum()

        best = minimize_scalar(loss, bounds=(-5, 5), method="bounded")
        found.append((subject, 1 - top, np.exp(best.x), -best.fun))
table = pd.DataFrame(found, columns=["subject", "1 - top", "beta", "log_likelihood"])
table = table.loc[table.groupby("subject")["log_likelihood"].idxmax()]
print(table.to_string(index=False, float_format="%.2f"))

# The program fits the same model, with intervals. Its config has model: {family: bernoulli}, order: arrival and this source:
#   csv: {path: trials.csv, key: subject, values: [outcome]}
# hafvf fit trials.yaml --set 'levels=[]' --over top --response choice --choice choice -o people.csv
