"""The time that several requests have together."""

from flexchat_sdk.http.deadline import TimeLeft


def test_it_runs_down_and_never_out() -> None:
    """At most what was given, and never 0: it is the request that is too late."""
    left = TimeLeft(60.0)
    first, second = left(), left()
    assert first is not None
    assert second is not None
    assert 59.0 < second <= first <= 60.0
    assert left(5.0) == 5.0
    over = TimeLeft(0.0)()
    assert over is not None
    assert 0 < over < 0.01


def test_without_a_limit_there_is_only_the_callers() -> None:
    """None is no limit."""
    left = TimeLeft(None)
    assert (left(), left(3.0)) == (None, 3.0)
