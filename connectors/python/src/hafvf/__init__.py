r"""Has this sensor, customer, service or subject changed, or was that one odd value?

A small Bayesian filter per key learns which values are usual and how fast to forget them, and raises alarms within a budget.
The module ``hafvf.beam`` is a transform for Beam pipelines.

>>> import pandas as pd, hafvf
>>> df = pd.read_csv("testdata/nab/cloud.csv", parse_dates=["time"])  # key, time, x
>>> print(*hafvf.alerts(df)["message"], sep="\n")
>>> table = hafvf.run(df, detect=True).joined(df)  # df, with the estimates of each row
>>> tomorrow = hafvf.run(df2, detect=True, states=hafvf.run(df, detect=True).states)
"""

from ._client import VERSION as __version__
from ._client import HafvfError
from ._frame import Result, alerts, filter, run
from ._research import Backtest, Smoothed, backtest, fit, sessions, smooth, trials
from ._signatures import documented as _documented
from ._stream import RejectedError, Stream

__all__ = ["Backtest", "__version__", "HafvfError", "RejectedError", "Result", "Smoothed", "Stream"]
__all__ += ["alerts", "backtest", "filter", "fit", "run", "sessions", "smooth", "trials"]

for _function in (run, trials, fit, backtest, smooth):
    _documented(_function)
_documented(filter, like=run)
_documented(alerts, like=run)
_documented(sessions, like=smooth)
