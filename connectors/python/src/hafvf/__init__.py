r"""Has this sensor, customer, service or subject changed, or was that one odd value?

A small Bayesian filter per key learns which values are usual and how fast to forget them, and raises alarms within a budget.
The module ``hafvf.beam`` is a transform for Beam pipelines.

>>> import pandas as pd, hafvf
>>> df = pd.read_csv("testdata/nab/cloud.csv", parse_dates=["time"])  # key, time, x
>>> print(*hafvf.alerts(df)["message"], sep="\n")
>>> table = hafvf.run(df, detect=True).joined(df)  # df, with the estimates of each row
>>> tomorrow = hafvf.run(df2, detect=True, states=hafvf.run(df, detect=True).states)
"""

from ._client import HafvfError
from ._frame import Result, alerts, filter, run
from ._stream import RejectedError, Stream

__all__ = ["HafvfError", "RejectedError", "Result", "Stream", "alerts", "filter", "run"]
