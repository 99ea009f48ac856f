"""The client of the Go program that filters, and the frames of its protocol.

The program runs as a child process. cmd/internal/serve/doc.go describes the bytes of a frame. The child keeps no states: a
call contains the states of its keys, and the answer contains the new states. If a child dies, the client starts another one
and repeats the call.
"""

from __future__ import annotations

import atexit
import errno
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

VERSION = "0.1.0"
PROTOCOL = 1
NONE = -(2**63)  # no time
END = 2**63 - 1  # the end of the input: no more observations arrive
MOST_ROWS = 1 << 14  # maximum rows per call; it limits the cost of a repeated call, and larger calls are not faster
_MOST_NUMBERS = 1 << 22  # maximum numbers in the rows of an answer
_MODELS = 64  # the models that a child keeps; cmd/internal/serve/frame.go has the same number
_TRIES = 5
_RECORDS, _COLUMNS, _ALERTS, _IDS, _STATES, _WRITTEN, _MIGRATE, _TEXTS = 1, 2, 4, 8, 16, 64, 128, 256
_NO_STATE = 2**32 - 1
_LENGTH = struct.Struct("<I")
_HEAD = struct.Struct("<BI")
_BATCH = struct.Struct("<IIIIqq")
_KEY = struct.Struct("<IIq")
_TYPES: dict[str, Any] = {"n": int | None, "events": int | None, "warm_up": bool | None, "quiet": bool | None}


class HafvfError(Exception):
    """An error of the program: wrong settings, a damaged state, a state of other settings, or a child that does not run.

    Attributes:
        code: ``settings``, ``state``, ``other_config``, ``rejected``, ``batch``, ``frame``, ``version``, ``panic`` or ``child``.
        result: with the code ``rejected``, the result of the rows that were learned.
    """

    def __init__(self, code: str, message: str, result: Any = None) -> None:
        """Makes an error with a code and a message."""
        super().__init__(message)
        self.code, self.result = code, result

    def __reduce__(self) -> tuple[type[HafvfError], tuple[str, str, Any]]:
        """Pickles the error as its code, message and result."""
        return HafvfError, (self.code, str(self), self.result)


def warn(text: str) -> None:
    """Warns at the line outside of this package that has called it."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "hafvf":
        frame, level = frame.f_back, level + 1
    warnings.warn("hafvf: " + text, stacklevel=level)


class _DeadError(Exception):
    """The child has ended."""


def head_of(kind: bytes, payload: bytes) -> bytes:
    """Returns the head of a frame: its length, type and checksum."""
    return _LENGTH.pack(len(payload) + _HEAD.size) + _HEAD.pack(kind[0], zlib.crc32(payload, zlib.crc32(kind)))


def opened(answer: memoryview) -> memoryview:
    """Returns the payload of a frame, which is given without its length. It raises HafvfError if the frame is an error."""
    kind, checksum = _HEAD.unpack_from(answer)
    answer = answer[_HEAD.size :]
    if checksum != zlib.crc32(answer, zlib.crc32(bytes([kind]))):
        raise _DeadError("the checksum of the answer is wrong")
    if kind == ord("e"):
        wrong = json.loads(bytes(answer))
        remedy = "; give the settings that states= were made with" if "fingerprint" in wrong["error"] else ""
        raise HafvfError(wrong["code"], (f"key {wrong['key']!r}: " if wrong.get("key") else "") + wrong["error"] + remedy)
    return answer


def program() -> Path:
    """Returns the path of the program in the package."""
    return Path(__file__).parent / "bin" / ("hafvf-serve.exe" if os.name == "nt" else "hafvf-serve")


class _Child:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.models: dict[str, Description] = {}
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115
        # The child has its own process group: Ctrl-C goes to Python only, which then ends the child.
        own: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x200 | 0x08000000}
        path = program()
        try:
            self.process = subprocess.Popen(
                [str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, bufsize=0, **own
            )
        except FileNotFoundError:
            raise HafvfError("child", f"{path} is missing: install hafvf as a wheel for this platform") from None
        except PermissionError:
            raise HafvfError("child", f"{path} cannot be executed: is its folder on a file system without exec?") from None
        except OSError as e:
            if e.errno == errno.ENOEXEC:
                text = f"{path} is built for another processor or system: install hafvf as a wheel for this platform"
                raise HafvfError("child", text) from None
            raise
        assert self.process.stdin and self.process.stdout
        self.to = self.process.stdin
        self.of = io.BufferedReader(self.process.stdout)  # type: ignore[type-var]  # a small answer takes one system call
        hello = {"protocol": PROTOCOL, "version": VERSION, "parent": self.pid}
        try:
            self.ask(b"h", json.dumps(hello).encode())
        except _DeadError as e:
            raise _DeadError(self.kill() or str(e)) from e
        except BaseException:
            self.kill()
            raise

    def ask(self, kind: bytes, payload: bytes) -> memoryview:
        """Sends a frame and returns the payload of the answer."""
        try:
            head = head_of(kind, payload)
            if len(payload) < 1 << 16:
                self._write(head + payload)
            else:
                self._write(head)
                self._write(payload)
            (n,) = _LENGTH.unpack(self._read(_LENGTH.size))
            answer = memoryview(self._read(n))
        except (OSError, EOFError) as e:
            raise _DeadError(repr(e)) from e
        return opened(answer)

    def _write(self, b: bytes) -> None:
        view = memoryview(b)
        while view:
            view = view[self.to.write(view) or 0 :]

    def _read(self, n: int) -> bytes:
        found = self.of.read(n)
        if len(found) < n:
            raise EOFError("the program has ended")
        return found

    def model(self, settings: str) -> Description:
        """Returns the description of settings. Like the child, it keeps those that were used last."""
        found = self.models.pop(settings, None)
        if found is None:
            found = Description.of(json.loads(bytes(self.ask(b"s", settings.encode()))))
        self.models[settings] = found
        if len(self.models) > _MODELS:
            del self.models[next(iter(self.models))]
        return found

    def kill(self) -> str:
        """Ends the child and returns the last 2,000 bytes of its standard error."""
        if self.pid != os.getpid():
            return ""  # the child belongs to the parent process of this fork
        self.process.kill()
        self.process.wait()
        for pipe in (self.to, self.of):
            try:
                pipe.close()
            except OSError:
                pass
        self.stderr.seek(max(0, self.stderr.tell() - 2000))
        last = self.stderr.read().decode(errors="replace").strip()
        self.stderr.close()
        return last


class _Pool:
    """The children of this process: one for each concurrent call."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.idle: deque[_Child] = deque()
        self.lock = threading.Lock()

    def call(self, do: Any) -> Any:
        said = ""
        for _ in range(_TRIES):
            with self.lock:
                while len(self.idle) > 1 and self.idle[0].process.poll() is not None:  # it ends after a minute without a call
                    self.idle.popleft().kill()
                child = self.idle.pop() if self.idle else None
            try:
                child = child or _Child()
                answer = do(child)
            except _DeadError as e:
                said = child.kill() or str(e) if child else str(e)
                continue
            except HafvfError:
                if child:
                    self._put(child)
                raise
            except BaseException:  # Ctrl-C during an answer
                if child:
                    child.kill()
                raise
            self._put(child)
            return answer
        raise HafvfError("child", f"{program()} ended {_TRIES} times during a call: {said}")

    def _put(self, child: _Child) -> None:
        with self.lock:
            self.idle.append(child)

    def stop(self) -> None:
        while self.idle:
            self.idle.pop().kill()


_pool: _Pool | None = None
_pool_lock = threading.Lock()


def _the_pool() -> _Pool:
    global _pool
    with _pool_lock:
        if _pool is None or _pool.pid != os.getpid():
            _pool = _Pool()
        return _pool


def _after_fork() -> None:
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _stop() -> None:
    if _pool and _pool.pid == os.getpid():
        _pool.stop()


def call(kind: bytes, payload: bytes) -> bytes:
    """Returns the payload of the answer to a frame."""
    return bytes(_the_pool().call(lambda child: child.ask(kind, payload)))


def parse_times(
    texts: Iterable[str], zone: str, codes: Sequence[int]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], dict[int, str], tuple[str, str]]:
    """Parses texts as the program parses the times of records. codes number the keys of the records.

    Returns the nanoseconds, NONE for an empty or wrong text; the reason for each wrong text by position; and the doubt whether
    the first numbers are Unix times, ``days``, ``years``, ``small`` or none, with the first of them.
    """
    asked = {"zone": zone, "times": list(texts), "keys": list(codes)}
    found = json.loads(call(b"t", json.dumps(asked).encode()))
    wrong = {int(i): reason for i, reason in found["wrong"].items()}
    return np.array(found["times"], np.int64), wrong, (found["doubt"], found["first"])


@dataclass(frozen=True)
class Description:
    """The child's description of settings."""

    model: int
    columns: tuple[str, ...]
    names: dict[str, list[str]]  # of categorical columns: the names that their numbers stand for
    unused: tuple[str, ...]
    arrival: bool  # whether the order is that of arrival
    full: bool  # whether records have all fields
    clocked: bool  # whether a key without observations can become silent or be forgotten
    events: bool  # whether rows are intervals
    patience: int  # how long an observation waits after its time, in nanoseconds
    warm_up: int  # observations of the warm-up
    settings: str  # the settings that determine the meaning of states

    @staticmethod
    def of(said: dict[str, Any]) -> Description:
        """Returns the description in an answer to settings."""
        columns, unused = tuple(said["columns"]), tuple(said["unused"])
        about = (said["order"] == "arrival", said["full"], said["clocked"], "events" in columns)
        return Description(
            said["model"], columns, said["names"], unused, *about, said["patience"], said["warm_up"], said["settings"]
        )

    @property
    def most_rows(self) -> int:
        """The maximum rows per call, which depends on their width."""
        return min(MOST_ROWS, max(1, _MOST_NUMBERS // len(self.columns)))

    def type_of(self, name: str) -> Any:
        """Returns the type of a column."""
        return str | None if name in self.names else _TYPES.get(name, float | None)

    def typed(self, name: str, numbers: np.ndarray[Any, Any]) -> Any:
        """Returns the column of a frame for the numbers; NaN becomes NA."""
        if name in self.names:
            codes = np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
            return pd.Categorical.from_codes(codes.tolist(), pd.Index(self.names[name]))
        if self.type_of(name) == int | None:
            return pd.array(numbers, "Float64").astype("Int64")
        if self.type_of(name) == bool | None:
            return pd.array(numbers, "Float64").astype("boolean")
        return numbers


@dataclass
class Answer:
    """The results of a batch."""

    states: list[bytes]
    rows: list[int]  # number of rows of each key
    deadlines: list[int]
    places: np.ndarray[Any, np.dtype[np.int32]]  # position of each row in the batch; −1: it arrived in an earlier batch
    times: np.ndarray[Any, np.dtype[np.int64]]
    columns: list[np.ndarray[Any, np.dtype[np.float64]]]
    rejects: list[tuple[int, str]]  # position in the batch, and reason
    records: bytes  # JSON Lines
    alerts: bytes


class States(dict[str, bytes]):
    """The states of keys.

    Attributes:
        settings: the settings that the states were made with, for errors.
    """

    settings: str | None = None

    @staticmethod
    def of(states: Mapping[str, bytes] | None) -> States:
        """Returns a copy of the states. It raises TypeError if they are no states."""
        if isinstance(getattr(states, "states", None), Mapping):
            raise TypeError(f"states is a {type(states).__name__}: give its states, as in states=result.states")
        if states is not None and not isinstance(states, Mapping):
            raise TypeError(f"states is a {type(states).__name__}: give the states of a result, a dict of key and bytes")
        found = States(states or {})
        for key, state in found.items():
            if not isinstance(state, bytes):
                raise TypeError(f"states has a {type(state).__name__} for the key {key!r}: give the bytes of result.states")
        found.settings = getattr(states, "settings", None)
        return found


class Model:
    """Settings that are ready for use. A Model is pickled as its text."""

    def __init__(self, text: str) -> None:
        """Makes a model of settings in the form that the child reads."""
        self.text = text
        self._described: Description | None = None

    def __reduce__(self) -> tuple[type[Model], tuple[str]]:
        """Pickles the model as its text."""
        return Model, (self.text,)

    def described(self) -> Description:
        """Returns the child's description of the settings. It raises HafvfError if they are wrong."""
        if self._described is None:
            self._described = _the_pool().call(lambda child: child.model(self.text))
        return self._described

    def others(self, states: States) -> str | None:
        """Returns the settings that the states were made with, if they differ from the model's."""
        return states.settings if states.settings != self.described().settings else None

    def ask(
        self,
        keys: Sequence[tuple[str, bytes | None, int]],
        times: np.ndarray[Any, Any] | Sequence[str],
        x: np.ndarray[Any, Any],
        *,
        horizon: int = NONE,
        now: int = NONE,
        ids: Sequence[str] | None = None,
        columns: bool = True,
        records: bool = False,
        written: str | None = None,
        migrate: bool = False,
    ) -> Answer:
        """Filters observations, which are given key by key.

        Args:
            keys: the name, the state and the number of observations of each key.
            times: the times of all observations, in nanoseconds since 1970, or as texts in the zone of the settings.
            x: the values of all observations, one row per observation.
            horizon: the time before which no more observations arrive.
            now: the time up to which to report silences and forget keys.
            ids: the ids of all observations.
            columns: whether to return columns.
            records: whether to return records.
            written: the settings that the states were written with, if they differ.
            migrate: whether to carry such states over, as by ``hafvf run --migrate``.
        """
        parts = []
        for name, state, n in keys:
            text = name.encode()
            parts += [_LENGTH.pack(len(text)), text, _LENGTH.pack(_NO_STATE if state is None else len(state))]
            parts += [state or b"", _LENGTH.pack(n)]
        flags = _ALERTS | _STATES | (_RECORDS if records else 0) | (_COLUMNS if columns else 0)
        if isinstance(times, np.ndarray):
            parts.append(np.ascontiguousarray(times, "<i8").tobytes())
        else:
            flags |= _TEXTS
            parts += _texts(times)
        parts.append(np.ascontiguousarray(x, "<f8").tobytes())
        if ids is not None:
            flags |= _IDS
            parts += _texts(ids)
        if written is not None:
            flags |= _WRITTEN | (_MIGRATE if migrate else 0)
            parts += _texts([written])
        body = b"".join(parts)
        length = x.shape[1] if x.ndim == 2 else 1

        def do(child: _Child) -> Answer:
            described = child.model(self.text)
            head = _BATCH.pack(described.model, flags, length, len(keys), horizon, now)
            return _read(child.ask(b"b", head + body), len(keys), columns, described)

        answer: Answer = _the_pool().call(do)
        return answer


def _texts(texts: Iterable[str]) -> Iterator[bytes]:
    for text in texts:
        encoded = text.encode()
        yield _LENGTH.pack(len(encoded)) + encoded


def _read(view: memoryview, keys: int, columns: bool, described: Description) -> Answer:
    """Returns the Answer in the bytes of an answer to a batch."""
    at = 0

    def text() -> bytes:
        nonlocal at
        (n,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size + n
        return bytes(view[at - n : at])

    def array(dtype: str, n: int) -> Any:
        nonlocal at
        found = np.frombuffer(view, dtype, n, at)
        at += found.nbytes
        return found

    states, rows, rejected, deadlines = [], [], [], []
    for _ in range(keys):
        states.append(text())
        n, bad, deadline = _KEY.unpack_from(view, at)
        at += _KEY.size
        rows.append(n)
        rejected.append(bad)
        deadlines.append(deadline)
    places, times, found = _NO_PLACES, _NO_TIMES, []
    if columns:
        n = sum(rows)
        places, times = array("<i4", n), array("<i8", n)
        found = [array("<f8", n) for _ in described.columns]
    bad_places = array("<i4", sum(rejected)).tolist() if any(rejected) else []
    records, alerts, rejects = text(), text(), text()
    reasons = [r["reason"] for r in lines(rejects)]
    return Answer(states, rows, deadlines, places, times, found, list(zip(bad_places, reasons, strict=True)), records, alerts)


_NO_PLACES, _NO_TIMES = np.zeros(0, "<i4"), np.zeros(0, "<i8")


def keep(states: dict[str, bytes], names: Iterable[str], found: Iterable[bytes]) -> None:
    """Puts the states of an answer into states. An empty state deletes its key, which is unknown or has expired."""
    for name, state in zip(names, found, strict=True):
        if state:
            states[name] = state
        else:
            states.pop(name, None)


def lines(text: bytes) -> list[dict[str, Any]]:
    """Returns the objects of JSON Lines."""
    if not text:
        return []
    found: list[dict[str, Any]] = json.loads("[" + text[:-1].decode().replace("\n", ",") + "]")
    return found
