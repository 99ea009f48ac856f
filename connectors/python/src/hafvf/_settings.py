"""Settings: the model's part of a config, as a dict, keywords or a YAML file."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ._client import HafvfError, Model, call, warn

Settings: TypeAlias = "Mapping[str, Any] | str | os.PathLike[str] | None"
Source: TypeAlias = tuple[str, str, dict[str, Any]]  # text and name of a settings file, and the settings as a dict

_OF_MODEL = ("family", "prior", "warm_up", "dim", "scale", "season")
# Advice for keys of a config that only the program uses.
_ELSEWHERE = {
    "state": "state: pass the states of a result to the next run, states=result.states",
    "incidents": "incidents: only the program hafvf groups the alarms of many keys",
    "marks": "marks: only the program hafvf accepts marks of alarms",
}
# Advice for errors of the program, by a part of their text.
_ADVICE = {
    "smooth": "hafvf.smooth smooths sessions",
    "source.values: names": 'see values=: a vector needs family="mvnormal"; columns that are series become rows by '
    'df.melt(…, var_name="key", value_name="x")',
    "is not a time zone": "see zone=",
    **dict.fromkeys(
        (f" {name}: unknown key" for name in _OF_MODEL),
        'it belongs into model, as in settings={"model": {…}}, or is a keyword of its own',
    ),
}


def model_of(source: Source, keywords: Mapping[str, Any], *, values: Sequence[str], zone: str, untimed: bool) -> Model:
    """Returns the model for settings. One warning names the settings that this package does not use.

    It reads the files that the settings name. A keyword that is None counts as absent.

    Args:
        source: the settings as ``read`` returns them.
        keywords: settings as keywords, which override the source.
        values: the names of the components of an observation.
        zone: the time zone for times without an offset.
        untimed: whether the observations have no times, which needs order="arrival".
    """
    _, name, given = source
    if "time_format" in [*given, *keywords]:
        raise HafvfError("settings", 'time_format: make times of the column, as by pd.to_datetime(df["time"], format=…)')
    text = text_of(source, keywords)
    about: dict[str, Any] = {"text": text, "name": name, "values": list(values), "zone": zone}
    found = Model(json.dumps(about, sort_keys=True))
    try:
        found.described()
    except HafvfError as e:
        advice = [f"; {sentence}" for part, sentence in _ADVICE.items() if part in str(e)]
        raise HafvfError(e.code, "".join([str(e), *advice[:1]])) from None
    if untimed:
        if not found.described().arrival:
            raise KeyError("the frame has no column time and no DatetimeIndex: give time=… or order='arrival'")
        found = Model(json.dumps(about | {"untimed": True}, sort_keys=True))
    unused = found.described().unused
    if unused:
        sentences = [f"not used here: {', '.join(unused)}"] + [_ELSEWHERE[name] for name in unused if name in _ELSEWHERE]
        warn("; ".join(sentences))
    return found


def text_of(source: Source, keywords: Mapping[str, Any]) -> str:
    """Returns the text of the settings in a source and in keywords, with the contents of the files that they name.

    Keywords override the source. A keyword that is None counts as absent.
    """
    text, _, given = source
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
    return text


def endless(model: Model) -> Model:
    """Returns the model for an unbounded input."""
    return Model(json.dumps(json.loads(model.text) | {"unending": True}, sort_keys=True))


def read(settings: Settings) -> Source:
    """Returns the text and the name of a settings file, and the settings. Without a file the text is empty."""
    if settings is None or isinstance(settings, Mapping):
        return "", "settings", dict(settings or {})
    if not isinstance(settings, (str, os.PathLike)):
        raise TypeError(f"settings is a {type(settings).__name__}: give a dict, or the path of a YAML file")
    name = os.fspath(settings)
    try:
        text = Path(settings).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "settings is no file: give a dict, or the path of a YAML file", name) from None
    found = json.loads(call(b"y", text.encode()))
    if found is not None and not isinstance(found, dict):
        raise HafvfError("settings", f"{name}: settings must be a mapping, not of type {type(found).__name__}")
    return text, name, found or {}


def _read_files(given: dict[str, Any]) -> None:
    """Replaces the names of files with the contents of these files."""
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
    """Converts a Python value to a value that JSON has."""
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
    raise HafvfError("settings", f"{value!r} has the type {type(value).__name__}, which settings do not accept")
