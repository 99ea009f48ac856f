import contextlib
import json
import os
import random
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from hafvf import _client

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The program hafvf, built from the same tree. Tests compare the package with it."""
    path = tmp_path_factory.mktemp("bin") / "hafvf"
    subprocess.run(["go", "build", "-o", str(path), "./cmd/hafvf"], cwd=ROOT, check=True)
    return path


@pytest.fixture(scope="session")
def prism(tmp_path_factory):
    """Options of a pipeline that runs on Prism. Prism opens a port on all interfaces, so HAFVF_PRISM must allow it."""
    if not os.environ.get("HAFVF_PRISM"):
        pytest.skip("Prism opens a port on all interfaces: set HAFVF_PRISM")
    path = tmp_path_factory.mktemp("prism") / "prism"
    subprocess.run(["go", "build", "-o", str(path), "./internal/testing/prism"], cwd=ROOT, check=True)
    options = ["--runner=PrismRunner", f"--prism_location={path}", "--environment_type=LOOPBACK"]
    # Without it, Prism splits a slow bundle within a key and runs a part of it twice: apache/beam#35771.
    return [*options, "--experiments=prism_disable_sdf_split"]


@pytest.fixture
def living(monkeypatch):
    """All children so far, in the order of their start."""
    all_ = list(_client._the_pool().idle)
    begin = _client._Child.__init__

    def begins(child):
        begin(child)
        all_.append(child)

    monkeypatch.setattr(_client._Child, "__init__", begins)
    return all_


@pytest.fixture
def kills(living):
    """Kills HAFVF_KILLS children (default 4), one after another, while a test runs. It yields the list of killed children."""

    @contextlib.contextmanager
    def killing():
        living.clear()
        _client._the_pool().stop()
        done, killed = threading.Event(), []

        def kill():  # with pauses: five kills in a row could hit every try of one call
            while len(killed) < int(os.environ.get("HAFVF_KILLS", 4)) and not done.wait(random.uniform(0.05, 0.15)):
                for child in living[-1:]:
                    if child.process.poll() is None:
                        child.process.send_signal(signal.SIGKILL)
                        killed.append(child)

        killer = threading.Thread(target=kill)
        killer.start()
        yield killed
        done.set()
        killer.join()
        print(f"{len(killed)} kills")

    return killing


@pytest.fixture
def run_program(program, tmp_path):
    """Runs a config and returns the estimates, the alerts and the rejected lines."""

    def run(text):
        config = tmp_path / "config.yaml"
        config.write_text(
            text
            + f"\nsink: {{jsonl: {{path: {tmp_path}/out.jsonl}}}}\ndead_letter: {{jsonl: {{path: {tmp_path}/dead.jsonl}}}}\n"
            + (f"alerts: {{jsonl: {{path: {tmp_path}/alerts.jsonl}}}}\n" if "detect" in text else "")
        )
        done = subprocess.run([str(program), "run", str(config)], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return [
            [json.loads(line) for line in (tmp_path / name).read_text().splitlines()] if (tmp_path / name).exists() else []
            for name in ("out.jsonl", "alerts.jsonl", "dead.jsonl")
        ]

    return run
