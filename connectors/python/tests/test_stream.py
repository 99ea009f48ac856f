import pickle

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
