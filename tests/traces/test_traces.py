"""Scripted turns: requests, hooks, events and outcome are those of the golden files.

They go through the public surface alone, so they fence an engine that is rebuilt. Where what they show is meant to
change, write the golden files again and read the difference:

    FLEXCHAT_WRITE_TRACES=1 .venv/bin/pytest tests/traces && git diff tests/traces/golden
"""

import json
import os

import pytest

from . import answers, closed, endings, formats, gates, limits, routing, tools  # noqa: F401  # scenes register themselves
from .recording import GOLDEN, GROUPS, both, written

SCENES = [(group, name) for group, plays in GROUPS.items() for name in plays]


WRITE = os.environ.get("FLEXCHAT_WRITE_TRACES")


@pytest.fixture(scope="session")
def golden():
    """The golden files; where they are to be written, what the scenes were."""
    traces = {group: {} if WRITE else json.loads((GOLDEN / f"{group}.json").read_text("utf-8")) for group in GROUPS}
    yield traces
    for group, found in traces.items() if WRITE else ():
        if found.keys() == GROUPS[group].keys():
            (GOLDEN / f"{group}.json").write_text(written(found), "utf-8")


@pytest.mark.timed  # some scenes let a limit of some milliseconds run out
@pytest.mark.parametrize(("group", "name"), SCENES, ids=lambda value: value)
def test_turn(group, name, golden, caplog):
    trace = both(GROUPS[group][name])
    assert "recorder" not in caplog.text  # where it breaks, the turn goes on without it
    if WRITE:
        golden[group][name] = trace
    expected = golden[group][name]
    for way in ("respond", "stream"):
        for channel in sorted({*expected[way], *trace[way]}):
            assert trace[way].get(channel) == expected[way].get(channel), f"{way}: {channel}"


def test_every_trace_has_its_scene(golden):
    assert {group: [*plays] for group, plays in golden.items()} == {group: [*plays] for group, plays in GROUPS.items()}
