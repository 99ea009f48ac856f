r"""Has this sensor, customer, service or subject changed, or was that one odd value?

A small Bayesian filter per key learns which values are usual and how fast to forget them, and raises alarms within a budget.
The module ``hafvf.beam`` is a transform for Beam pipelines.

>>> import pandas as pd, hafvf
>>> df = pd.read_csv("cloud.csv")  # key, time, x
>>> print(*hafvf.alerts(df)["message"], sep="\n")
>>> estimates = hafvf.filter(df, detect=True)  # with the index of df
>>> tomorrow = hafvf.run(df2, detect=True, states=hafvf.run(df, detect=True).states)
"""

from ._client import VERSION as __version__
from ._client import HafvfError
from ._frame import Result, alerts, filter, run
from ._stream import RejectedError, Stream

__all__ = ["HafvfError", "__version__", "RejectedError", "Result", "Stream", "alerts", "filter", "run"]
