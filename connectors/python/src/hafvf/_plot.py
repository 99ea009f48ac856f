"""Figures of results, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAND, _LINE, _VALUE, _ALARM, _CHANGE = "#9ecae1", "#3182bd", "#444444", "#d62728", "#e6862a"
_SD = 1.96  # sd of a 95 % band


class Plots:
    """A result that draws a key."""

    def plot(self, key: Any = None, *, output: int = 0, ax: Axes | None = None) -> Axes:
        """Draws the values of a key, the band in which 95 % of them were expected, its alarms and its changes.

        For ``smooth``, the band is that of the level, and the lines are its segments. It needs matplotlib
        (``pip install 'hafvf[plot]'``).

        Args:
            key: the key. Default: the only one.
            output: the index of the value of a vector.
            ax: where to draw. Default: a new figure.

        Returns:
            the axes: ``result.plot("pump-3").figure.savefig("pump.pdf")``.
        """
        try:
            from matplotlib import dates, pyplot
        except ImportError:
            raise ImportError("plot needs matplotlib: pip install 'hafvf[plot]'") from None
        estimates: pd.DataFrame = getattr(self, "estimates")  # noqa: B009
        rows, key = _of(estimates, key)
        if ax is None:
            _, ax = pyplot.subplots(figsize=(8, 3), layout="constrained")
        timed = rows["time"].notna().any()
        at = rows["time"] if timed else pd.Series(np.arange(1, len(rows) + 1), rows.index)
        segments = getattr(self, "segments", None)
        if segments is None:
            alerts, _ = _of(getattr(self, "alerts"), key)  # noqa: B009
            _filtered(ax, rows, at, alerts, output)
        else:
            _smoothed(ax, rows, at, output)
        ax.plot(at, _column(rows, "x", output), ".", color=_VALUE, markersize=3, label="values", zorder=3)
        ax.set(xlabel="" if timed else "trial", xmargin=0.01)
        ax.set_title(str(key), loc="right", fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
        if timed:
            locator = dates.AutoDateLocator(tz=rows["time"].dt.tz)  # type: ignore[no-untyped-call]
            formatter = dates.ConciseDateFormatter(locator, tz=rows["time"].dt.tz)  # type: ignore[no-untyped-call]
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(formatter)
        ax.legend(frameon=False, ncols=5, fontsize="small", loc="lower left", bbox_to_anchor=(0, 0.98), borderaxespad=0)
        return ax


def _of(frame: pd.DataFrame, key: Any) -> tuple[pd.DataFrame, Any]:
    """Returns the rows of a key in the order of their times."""
    frame = frame.reset_index([name for name in ("key", "time") if name in frame.index.names])
    keys = frame["key"].dropna().unique().tolist()
    if key is None:
        if len(keys) > 1:
            raise ValueError(f"the result has {len(keys)} keys: give key=…, such as {keys[0]!r}")
        key = keys[0] if keys else None
    rows = frame[frame["key"].astype(str) == str(key)]
    if rows.empty and "x" in frame and "predicted_mean" in frame:
        raise ValueError(f"the result has no key {key!r}; it has {keys[:5]}")
    return (rows.sort_values("time", kind="stable") if rows["time"].notna().any() else rows), key


def _column(rows: pd.DataFrame, name: str, output: int) -> pd.Series[Any]:
    found = rows[name] if name in rows else rows[f"{name}_{output}"]
    return pd.to_numeric(found)


def _filtered(ax: Axes, rows: pd.DataFrame, at: pd.Series[Any], alerts: pd.DataFrame, output: int) -> None:
    """Draws the band of the filter, its alarms and its changes."""
    mean, sd = _column(rows, "predicted_mean", output), _column(rows, "predicted_sd", output)
    if "detect_usual_mean" in rows or f"detect_usual_mean_{output}" in rows:
        mean, sd = _column(rows, "detect_usual_mean", output), _column(rows, "detect_usual_sd", output)
    ax.fill_between(at, mean - _SD * sd, mean + _SD * sd, color=_BAND, alpha=0.6, linewidth=0, label="expected (95 %)")
    ax.plot(at, mean, color=_LINE, linewidth=0.9)
    starts = alerts.loc[alerts["kind"].astype(str) == "change", "start"].dropna().tolist()
    for i, start in enumerate(starts):
        ax.axvline(start, color=_CHANGE, linewidth=1, linestyle="--", label=None if i else "changes")
    if "detect_alarm" in rows and (alarmed := rows["detect_alarm"].notna()).any():
        x = _column(rows, "x", output)
        ax.plot(at[alarmed], x[alarmed], "o", color=_ALARM, fillstyle="none", markersize=7, label="alarms", zorder=4)


def _smoothed(ax: Axes, rows: pd.DataFrame, at: pd.Series[Any], output: int) -> None:
    """Draws the level of each session, its segments and the intervals of its changes."""
    name = rows["id"].str.rsplit("/", n=1).str[0] if rows["time"].isna().all() else rows["session_start"]
    mean, sd = _column(rows, "estimate_mean", output), _column(rows, "estimate_sd", output)
    for _, part in rows.groupby([name, rows["change"].astype(bool).groupby(name).cumsum()], sort=False):
        i, shown = part.index, ax.get_legend_handles_labels()[1]
        label = None if "level (95 %)" in shown else "level (95 %)"
        ax.fill_between(at[i], (mean - _SD * sd)[i], (mean + _SD * sd)[i], color=_BAND, alpha=0.6, linewidth=0, label=label)
        ax.plot(at[i], mean[i], color=_LINE, linewidth=0.9)
        if bool(part["change"].iloc[0]):
            ax.axvline(at[i[0]], color=_CHANGE, linewidth=1, linestyle="--", label=None if "changes" in shown else "changes")
