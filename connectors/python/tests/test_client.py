import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import ROOT
from test_frame import series

import hafvf
from hafvf import _client


def test_version_is_that_of_the_package():
    from importlib.metadata import version

    assert version("hafvf") == _client.VERSION


def test_a_child_that_is_killed_is_started_again(living):
    df = series(400)
    want = hafvf.run(df, detect=True)
    killed = set()

    def kill():
        killed.add(living[-1].process.pid)
        living[-1].process.send_signal(signal.SIGKILL)

    for i in range(10):
        killer = threading.Timer(0.01 * i, kill)  # during the call or after it
        killer.start()
        got = hafvf.run(df, detect=True)
        killer.join()
        assert got.estimates.equals(want.estimates) and got.states == want.states
    assert len(killed) > 1


def test_threads_and_forks_have_their_own_children():
    df = series(100)
    want = hafvf.filter(df)
    got = [None] * 4

    def work(i):
        got[i] = hafvf.filter(df)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(g.equals(want) for g in got)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if hafvf.filter(df).equals(want) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert hafvf.filter(df).equals(want)


def test_a_program_that_is_missing_or_foreign_is_a_sentence(monkeypatch, tmp_path):
    def says(path, text):
        monkeypatch.setattr(_client, "program", lambda: path)
        monkeypatch.setattr(_client, "_pool", None)
        with pytest.raises(hafvf.HafvfError, match=text) as e:
            hafvf.filter(series(5))
        assert e.value.code == "child"

    says(tmp_path / "none", "is missing: install hafvf as a wheel")
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF nothing")
    foreign.chmod(0o755)
    says(foreign, "another processor")
    plain = tmp_path / "plain"
    plain.write_text("")
    plain.chmod(0o644)
    says(plain, "cannot be executed")
    crash = tmp_path / "crash"
    crash.write_text("#!/bin/sh\necho out of luck >&2\nexit 3\n")
    crash.chmod(0o755)
    says(crash, "ended 5 times during a call: out of luck")


def test_ctrl_c_ends_within_a_second_and_leaves_no_child():
    code = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background processes ignore SIGINT
import numpy as np, pandas as pd, hafvf
from hafvf import _client
n = 400_000
df = pd.DataFrame({"key": np.arange(n) % 50, "time": np.arange(n) * 60 + 1700000000, "x": np.sin(np.arange(n))})
hafvf.filter(df.head(10))
print(_client._the_pool().idle[0].process.pid, flush=True)
threading.Timer(1, lambda: (print(time.time(), flush=True), os.kill(os.getpid(), 2))).start()
try:
    hafvf.filter(df, detect=True, interval=0.9)
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    child, sent, came = done.stdout.split()
    assert float(came) - float(sent) < 5  # one second, plus four for a busy machine
    time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(child), 0)


def test_golden_frames_are_read_by_both_sides():
    goldens = [json.loads(line) for line in (ROOT / "cmd/internal/serve/testdata/frames.jsonl").read_text().splitlines()]
    says, batches, described = {}, 0, None
    for g in goldens:
        request, answer = bytes.fromhex(g["request"]), memoryview(bytes.fromhex(g["answer"]))
        kind, payload = request[4:5], request[9:]
        right = g["name"] != "a wrong checksum"
        assert (_client.head_of(kind, payload) + payload == request) == right, g["name"]
        try:
            got = _client.opened(answer[4:])
        except hafvf.HafvfError as e:
            says[g["name"]] = e.code
            continue
        if kind == b"s":
            described = _client.Description.of(json.loads(bytes(got)))
        if kind == b"b" and g["name"] == "vectors":
            found = _client._read(got, 1, True, described_of(goldens, "settings of vectors, with detection"))
            assert found.rows == [1] and found.rejects[0][0] == 1 and len(found.columns[0]) == 1
            batches += 1
    assert batches == 1 and described is not None
    assert says["a damaged state"] == "state" and says["a state of other settings"] == "other_config"
    assert says["hello of another protocol"] == "version" and says["settings with two mistakes"] == "settings"


def described_of(goldens, name):
    (answer,) = [bytes.fromhex(g["answer"]) for g in goldens if g["name"] == name]
    return _client.Description.of(json.loads(answer[9:]))


def test_errors_are_pickled():
    e = pickle.loads(pickle.dumps(hafvf.HafvfError("state", "damaged")))
    assert (e.code, str(e)) == ("state", "damaged")


def test_children_that_ended_while_idle_are_replaced():
    pool = _client._the_pool()
    for child in [_client._Child() for _ in range(7)]:
        pool._put(child)
    for child in pool.idle:
        child.process.kill()
        child.process.wait()
    assert len(hafvf.filter(series(10))) == 20 and len(pool.idle) == 1
