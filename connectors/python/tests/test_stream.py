import copy
import pickle
import threading

import pytest

import hafvf


def test_a_stream_is_the_frame():
    import pandas as pd
    from test_frame import series

    df = series(120, jump=100)
    want = hafvf.run(df, detect={"settling": "0s"})
    s = hafvf.Stream(detect={"settling": "0s"})
    records = []
    for i, (key, time, x) in enumerate(zip(df["key"], df["time"], df["x"], strict=True)):
        if i == 150:
            s = pickle.loads(pickle.dumps(s))
        records += s.update(key, time, x)
    assert [r["estimate"]["mean"] for r in records] == want.estimates["estimate_mean"].tolist()
    assert s.states == want.states
    assert [a["message"] for a in s.alerts()] == want.alerts["message"].tolist() != []
    assert s.alerts() == []
    assert isinstance(records[0]["time"], str) and pd.Timestamp(records[0]["time"]) == df["time"][0].tz_localize("UTC")


def test_what_is_rejected_changes_nothing():
    s = hafvf.Stream()
    s.update("a", "2026-01-01T00:00:00Z", 1.0)
    before = dict(s.states)
    for time, x, reason in (
        ("2025-01-01T00:00:00Z", 1.0, "late"),
        ("never", 1.0, "never"),
        ("2026-01-02", float("inf"), "not finite"),
        (None, 1.0, "no time"),
    ):
        with pytest.raises(hafvf.RejectedError, match=reason):
            s.update("a", time, x)
    assert s.states == before
    s.update("a", "2026-01-01T00:01:00Z", 1.0)


def test_what_waits_comes_out():
    s = hafvf.Stream(lateness="10m")
    assert s.update("a", "2026-01-01T00:05:00Z", 5.0) == []
    assert s.update("a", "2026-01-01T00:01:00Z", 1.0) == []
    assert [r["x"] for r in s.update("a", "2026-01-01T00:12:00Z", 12.0)] == [1.0]
    assert [r["x"] for r in s.flush()] == [5.0, 12.0]


def test_vectors():
    s = hafvf.Stream(family="mvnormal", values=["u", "v"])
    assert s.update("a", "2026-01-01", [1.0, 2.0])[0]["x"] == [1.0, 2.0]
    with pytest.raises(hafvf.HafvfError, match="observations of 1 numbers; mvnormal takes 2"):
        s.update("a", "2026-01-02", 1.0)


def test_silence():
    s = hafvf.Stream(silence={"after": "15m"})
    for i in range(5):
        s.update("a", f"2026-01-01T00:{i:02}:00Z", 1.0)
    assert s.alerts("2026-01-01T00:10:00Z") == []
    assert [a["kind"] for a in s.alerts("2026-01-01T01:00:00Z")] == ["silent"]
    assert s.alerts("2026-01-01T02:00:00Z") == []
    s.update("a", "2026-01-01T02:01:00Z", 1.0)
    s = hafvf.Stream(order="arrival")
    assert s.update(7, None, [1.0])[0]["key"] == "7"


def test_threads_lose_nothing():
    s = hafvf.Stream(lateness="30h")

    def learn(first):
        for i in range(100):
            s.update("a", 1e9 + 1000 * i + first, 1.0)

    threads = [threading.Thread(target=learn, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [r["n"] for r in s.flush()][-1] == 800
    assert copy.deepcopy(s).states == pickle.loads(pickle.dumps(s)).states == s.states


def test_many_are_the_single_ones():
    rows = [("ab"[i % 2], f"2026-01-01 {i // 60:02}:{i % 60:02}", float(i % 7 + 90 * (i == 190)), f"r{i}") for i in range(200)]
    one, many = (hafvf.Stream(detect={"settling": "0s"}, zone="Europe/Berlin") for _ in range(2))
    want = [r for row in rows for r in one.update(*row)]
    records, rejected = many.update_many(rows[:150])
    more, _ = many.update_many(iter(rows[150:]))
    assert rejected == [] and sorted(records + more, key=lambda r: r["time"]) == sorted(want, key=lambda r: r["time"])
    assert many.states == one.states and many.alerts() == one.alerts() != []
    bad = [("a", "2026-02-01", "much"), ("a", "soon", 1.0), ("b", "2025-02-01", 2.0), ("a", "2026-02-01", 1), ("a", None, [1, 2])]
    records, rejected = many.update_many(bad)
    assert len(records) == 1 and [r["row"] for r in rejected] == [0, 4, 1, 2]
    assert "late" in rejected[3]["reason"] and rejected[3]["key"] == "b"
    assert many.update_many([]) == ([], [])
