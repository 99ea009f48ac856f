"""Times of a frame, as nanoseconds since 1970 in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timezone
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ._client import NONE, parse_times, warn

Int64: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_REMEDIES = {
    "days": ("days of a spreadsheet", 'unit="D", origin="1899-12-30"'),
    "years": ("years", 'format="%Y"'),
}
_RANGE = "the time {} is outside of the years 1678 to 2261"


def nanoseconds(times: pd.Series[Any] | pd.Index[Any], zone: str, codes: Sequence[int]) -> tuple[Int64, dict[int, str]]:
    """Returns the times in nanoseconds, NONE for a missing time, and the reason for each unreadable time by position.

    Numbers are Unix times in seconds, milliseconds, microseconds or nanoseconds; their size decides the unit. Texts are read
    as the program reads them. A time without an offset is in the zone. If it occurs twice because the clock was set back, the
    order of its key's rows decides. If the clock skips it, the offset before the change is used. The codes number the
    keys of the rows. If the first numbers are days of a spreadsheet or years, it raises ValueError.
    """
    column: pd.Series[Any] = pd.Series(times.array)
    if isinstance(column.dtype, pd.ArrowDtype):
        column = pd.Series(column.tolist(), dtype=object).infer_objects()
    if isinstance(column.dtype, pd.PeriodDtype):
        column = pd.Series(column.dt.to_timestamp())
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return _exact(column.dt.tz_convert("UTC").dt.tz_localize(None))
    if np.issubdtype(column.to_numpy().dtype, np.datetime64):
        if zone == "UTC":
            return _exact(column)
        return parse_times(["" if s == "NaT" else s for s in np.datetime_as_string(column.to_numpy()).tolist()], zone, codes)[:2]
    found, wrong, (doubt, first) = parse_times(map(text_of, column.tolist()), zone, codes)
    give = f"give pd.to_datetime(df[{times.name!r}], "
    if doubt in _REMEDIES:
        what, remedy = _REMEDIES[doubt]
        raise ValueError(f'the times seem to be {what}, such as {first}: {give}{remedy}), or {give[5:]}unit="s") for seconds')
    if doubt:
        text = f"the times are small numbers, such as {first}, and are read as seconds since 1970: {give}unit=…)"
        warn(text + " for other units; trial numbers need order='arrival' and no time=")
    return found, wrong


def zone_of(times: pd.Series[Any] | pd.Index[Any]) -> str | None:
    """Returns the name of the zone of a column of times. It returns None without a zone, for UTC and for a fixed offset."""
    dtype = times.dtype
    name = str(dtype.tz) if isinstance(dtype, pd.DatetimeTZDtype) else ""
    if isinstance(dtype, pd.ArrowDtype):
        name = getattr(dtype.pyarrow_dtype, "tz", None) or ""
    return name if "/" in name and not name.startswith("Etc/") else None


def text_of(value: Any) -> str:
    """Returns a time as text, empty for a missing time."""
    if value is None or value is pd.NaT or value is pd.NA or isinstance(value, float) and value != value:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (datetime, date, pd.Timestamp)):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, (float, np.floating)):
        return np.format_float_positional(value, trim="-")
    return str(value)


def _exact(column: pd.Series[Any]) -> tuple[Int64, dict[int, str]]:
    values = column.to_numpy()
    unit, count = np.datetime_data(values.dtype)
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit] * count
    whole = values.astype(np.int64)
    none = np.isnat(values)
    most = (2**63 - 1) // scale
    far = ~none & ((whole > most) | (whole < -most))
    out = np.where(none | far, 0, whole) * scale
    out[none | far] = NONE
    return out, {int(i): _RANGE.format(values[i]) for i in np.flatnonzero(far)}


def iso(nanos: Iterable[int]) -> pd.DatetimeIndex:
    """Returns the times for nanoseconds, NaT for NONE."""
    whole = nanos if isinstance(nanos, np.ndarray) else np.array(list(nanos), np.int64)
    return pd.DatetimeIndex(whole.view("M8[ns]")).tz_localize("UTC")


def like(nanos: Int64, times: pd.Series[Any] | None, zone: str) -> pd.Index[Any]:
    """Returns the times for nanoseconds in the zone and unit of a column of times, or in UTC if it has texts or numbers."""
    found: pd.DatetimeIndex = iso(nanos)
    dtype: Any = None if times is None else times.dtype
    if dtype is None or dtype.kind != "M":
        return found
    own = dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else dtype
    found = found.tz_convert(own.tz) if getattr(own, "tz", None) else found.tz_convert(zone).tz_localize(None)
    unit: Any = getattr(own, "unit", None) or np.datetime_data(own)[0]
    found = found.as_unit(unit)
    return found.astype(dtype) if own is not dtype else found


def one(time: Any, zone: str) -> int:
    """Returns one time as ``nanoseconds`` does. It raises ValueError with the reason if the time cannot be read."""
    if isinstance(time, datetime) and time is not pd.NaT and (time.tzinfo is not None or zone == "UTC"):
        whole = (time if time.tzinfo else time.replace(tzinfo=timezone.utc)) - _EPOCH
        rest = time.nanosecond if isinstance(time, pd.Timestamp) else 0
        found = ((whole.days * 86400 + whole.seconds) * 10**6 + whole.microseconds) * 1000 + rest
        if not NONE < found < 2**63:
            raise ValueError(_RANGE.format(time))
        return found
    times, wrong, _ = parse_times([text_of(time)], zone, [0])
    if wrong:
        raise ValueError(wrong[0])
    return int(times[0])
