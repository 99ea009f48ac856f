"""The client of the Go program that filters, and the frames of its protocol.

The program runs as a child process. cmd/internal/serve/doc.go describes the bytes of a frame. The child keeps no states: a
call contains the states of its keys, and the answer contains the new states. If a child dies, the client starts another one
and repeats the call.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import struct
import subprocess
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
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
_TRIES = 5
_RECORDS, _COLUMNS, _ALERTS, _IDS, _STATES, _WRITTEN, _MIGRATE = 1, 2, 4, 8, 16, 64, 128
_NO_STATE = 2**32 - 1
_LENGTH = struct.Struct("<I")
_HEAD = struct.Struct("<BI")
_BATCH = struct.Struct("<IIIIqq")
_KEY = struct.Struct("<IIq")
_TYPES: dict[str, Any] = {"n": int | None, "events": int | None, "warm_up": bool | None, "quiet": bool | None}


class HafvfError(Exception):
    """An error of the program: wrong settings, a damaged state, a state of other settings, or a child that does not run.

    Attributes:
        code: ``settings``, ``state``, ``other_config``, ``batch``, ``frame``, ``version``, ``panic`` or ``child``.
    """

    def __init__(self, code: str, message: str) -> None:
        """Makes an error with a code and a message."""
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[HafvfError], tuple[str, str]]:
        """Pickles the error as its code and message."""
        return HafvfError, (self.code, str(self))


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
        raise HafvfError(wrong["code"], (f"key {wrong['key']!r}: " if wrong.get("key") else "") + wrong["error"])
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
        self.to, self.of = self.process.stdin, self.process.stdout
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

    def _read(self, n: int) -> bytearray:
        buffer = bytearray(n)
        view = memoryview(buffer)
        while view:
            got = self.of.readinto(view)  # type: ignore[attr-defined]
            if not got:
                raise EOFError("the program has ended")
            view = view[got:]
        return buffer

    def model(self, settings: str) -> Description:
        if settings not in self.models:
            self.models[settings] = Description.of(json.loads(bytes(self.ask(b"s", settings.encode()))))
        return self.models[settings]

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
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], dict[int, str]]:
    """Parses texts as the program parses the times of records. codes number the keys of the records.

    Returns the nanoseconds, NONE for an empty or wrong text, and the reason for each wrong text by position.
    """
    asked = {"zone": zone, "times": list(texts), "keys": list(codes)}
    found = json.loads(call(b"t", json.dumps(asked).encode()))
    return np.array(found["times"], np.int64), {int(i): reason for i, reason in found["wrong"].items()}


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
    settings: str  # the settings that determine the meaning of states

    @staticmethod
    def of(said: dict[str, Any]) -> Description:
        """Returns the description in an answer to settings."""
        columns, unused = tuple(said["columns"]), tuple(said["unused"])
        about = (said["order"] == "arrival", said["full"], said["clocked"], "events" in columns)
        return Description(said["model"], columns, said["names"], unused, *about, said["patience"], said["settings"])

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

    def ask(
        self,
        keys: Sequence[tuple[str, bytes | None, int]],
        times: np.ndarray[Any, Any],
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
            times: the times of all observations, in nanoseconds since 1970.
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
        parts += [np.ascontiguousarray(times, "<i8").tobytes(), np.ascontiguousarray(x, "<f8").tobytes()]
        flags = _ALERTS | _STATES | (_RECORDS if records else 0) | (_COLUMNS if columns else 0)
        if ids is not None:
            flags |= _IDS
            for i in ids:
                text = i.encode()
                parts += [_LENGTH.pack(len(text)), text]
        if written is not None:
            flags |= _WRITTEN | (_MIGRATE if migrate else 0)
            text = written.encode()
            parts += [_LENGTH.pack(len(text)), text]
        body = b"".join(parts)
        length = x.shape[1] if x.ndim == 2 else 1

        def do(child: _Child) -> Answer:
            described = child.model(self.text)
            head = _BATCH.pack(described.model, flags, length, len(keys), horizon, now)
            return _read(child.ask(b"b", head + body), len(keys), columns, described)

        answer: Answer = _the_pool().call(do)
        return answer


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
    n = sum(rows)
    places, times, found = np.zeros(0, "<i4"), np.zeros(0, "<i8"), []
    if columns:
        places, times = array("<i4", n), array("<i8", n)
        found = [array("<f8", n) for _ in described.columns]
    bad_places = array("<i4", sum(rejected)).tolist()
    records, alerts, rejects = text(), text(), text()
    reasons = [r["reason"] for r in lines(rejects)]
    return Answer(states, rows, deadlines, places, times, found, list(zip(bad_places, reasons, strict=True)), records, alerts)


def keep(states: dict[str, bytes], names: Iterable[str], found: Iterable[bytes]) -> None:
    """Puts the states of an answer into states. An empty state deletes its key, which is unknown or has expired."""
    for name, state in zip(names, found, strict=True):
        if state:
            states[name] = state
        else:
            states.pop(name, None)


def lines(text: bytes) -> list[dict[str, Any]]:
    """Returns the objects of JSON Lines."""
    return [json.loads(line) for line in text.splitlines()]
