"""Settings: what a config of the program says of a key, as a dict, keywords, or a file of YAML."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ._client import HafvfError, Model, call

Settings: TypeAlias = "Mapping[str, Any] | str | os.PathLike[str] | None"
Source: TypeAlias = tuple[str, str, dict[str, Any]]  # the text of a file of settings, its name, and what they say

_OF_MODEL = ("family", "prior", "warm_up", "dim", "scale", "season")
# What to do in place of the parts of a config that are the program's own.
_ELSEWHERE = {
    "state": "state: hand the states of a result to the next run, states=result.states",
    "incidents": "incidents: the program hafvf groups alarms of many keys",
    "marks": "marks: the program hafvf takes marks of its alarms",
}


def model_of(source: Source, keywords: Mapping[str, Any], *, values: Sequence[str], zone: str, untimed: bool) -> Model:
    """Returns the model of settings, and warns once of what they have that is not used here.

    Files that the settings name are read now. A keyword that is None is not given.

    Args:
        source: of settings, as read gives it.
        keywords: the same, key by key, which goes before.
        values: the names of the numbers of an observation.
        zone: of times without one.
        untimed: whether there are no times, which needs order="arrival".
    """
    text, name, given = source
    before = json.dumps(given, default=str)
    model = dict(given.get("model") or {})
    for keyword, value in keywords.items():
        if value is not None:
            (model if keyword in _OF_MODEL else given)[keyword] = value
    if model or "model" in given:
        given["model"] = model
    _read_files(given)
    if not text or json.dumps(given, default=str) != before:
        text = json.dumps(given, sort_keys=True, default=_plain, allow_nan=False)
    about: dict[str, Any] = {"text": text, "name": name, "values": list(values), "zone": zone}
    found = Model(json.dumps(about, sort_keys=True))
    if untimed:
        if not found.described().arrival:
            raise KeyError("the frame has no column time and no DatetimeIndex: name its column, time=…, or say order='arrival'")
        found = Model(json.dumps(about | {"untimed": True}, sort_keys=True))
    unused = found.described().unused
    if unused:
        sentences = [f"not used here: {', '.join(unused)}"] + [_ELSEWHERE[name] for name in unused if name in _ELSEWHERE]
        warnings.warn("hafvf: " + "; ".join(sentences), stacklevel=4)
    return found


def endless(model: Model) -> Model:
    """Returns the model of observations that come one after the other."""
    return Model(json.dumps(json.loads(model.text) | {"unending": True}, sort_keys=True))


def read(settings: Settings) -> Source:
    """Returns the text of a file of settings and its name, and what they say."""
    if settings is None or isinstance(settings, Mapping):
        return "", "settings", dict(settings or {})
    text, name = Path(settings).read_text(encoding="utf-8"), os.fspath(settings)
    found = json.loads(call(b"y", text.encode()))
    if found is not None and not isinstance(found, dict):
        raise HafvfError("settings", f"{name}: no settings, but {type(found).__name__}")
    return text, name, found or {}


def _read_files(given: dict[str, Any]) -> None:
    """Puts what files hold in the place of their names."""
    quiet = given.get("quiet")
    if isinstance(quiet, Sequence) and not isinstance(quiet, str):
        entries: list[Any] = []
        for entry in quiet:
            if isinstance(entry, Mapping) and set(entry) == {"file"}:
                lines = Path(entry["file"]).read_text(encoding="utf-8").splitlines()
                entries += [json.loads(line) for line in lines if line.strip()]
            else:
                entries.append(entry)
        given["quiet"] = entries
    detect = given.get("detect")
    holidays = detect.get("holidays") if isinstance(detect, Mapping) else None
    if isinstance(detect, Mapping) and isinstance(holidays, Mapping) and "file" in holidays:
        rest = {name: value for name, value in holidays.items() if name != "file"}
        lines = Path(holidays["file"]).read_text(encoding="utf-8").splitlines()
        rest["dates"] = [*rest.get("dates", []), *filter(None, (line.split("#")[0].strip() for line in lines))]
        given["detect"] = {**detect, "holidays": rest}


def _plain(value: Any) -> Any:
    """Makes JSON of what a dict of Python may hold."""
    if isinstance(value, (timedelta, np.timedelta64, pd.Timedelta)):
        return f"{pd.Timedelta(value).value}ns"
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple, pd.Series, pd.Index)):
        return list(value)
    raise HafvfError("settings", f"{value!r} is of type {type(value).__name__}, which settings do not have")
