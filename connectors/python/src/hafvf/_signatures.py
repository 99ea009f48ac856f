"""Signatures and documentation of the functions, with the settings that _parameters.py lists."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from ._parameters import DOCS, Parameters, SmoothParameters
from ._settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


class Arguments(Parameters, total=False):
    """Arguments of all functions."""

    key: Hashable | Sequence[Hashable]
    time: Hashable
    values: Hashable | Sequence[Hashable]
    zone: str
    settings: Settings


class RunArguments(Arguments, total=False):
    """Arguments of run, filter and alerts."""

    id: Hashable
    states: Mapping[str, bytes] | None


def documented(function: F, *, like: Callable[..., Any] | None = None) -> F:
    """Gives a function the signature and the documentation of its settings, and of the function that it is like."""
    signature = inspect.signature(function)
    named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if like is not None:
        named += [p for p in inspect.signature(like).parameters.values() if p.name not in signature.parameters]
    given = {p.name for p in named}
    types = {**SmoothParameters.__annotations__, **Parameters.__annotations__}
    for name in DOCS:
        if name not in given:
            kind: Any = getattr(types[name], "__forward_arg__", types[name])
            named.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    function.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    lines = [f"    {name}: {text}" for name, text in DOCS.items() if name not in given]
    body = [textwrap.fill(line, 120, subsequent_indent=" " * 8, break_long_words=False) for line in lines]
    more = (
        "Settings, as CONFIG.md describes them:\n" + "\n".join(body)
        if like is None
        else (like.__doc__ or "").partition("\n\n")[2]
    )
    function.__doc__ = inspect.cleandoc(function.__doc__ or "") + "\n\n" + more
    return function
