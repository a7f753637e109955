"""Chunks have the form that real servers send."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from flexchat.testing import says

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = Path(os.environ.get("FLEXCHAT_SHARED", ROOT.parent / "shared")) / "recordings" / "openai"
OURS = {
    "chunk": {"id", "object", "created", "model", "choices", "usage"},
    "choice": {"index", "delta", "logprobs", "finish_reason"},
    "delta": {"role", "content", "refusal", "reasoning_content"},
}


async def test_chunks_have_these_keys_and_no_others(told, sse):
    """And ``flexchat`` in the one with the finish reason."""
    told.says(says("two words"))
    body = {
        "model": "flexchat",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    events = sse((await (await told.client()).post("/v1/chat/completions", json=body)).text)
    assert events[-1] == (None, "[DONE]")
    chunks = [data for name, data in events[:-1]]
    assert [chunk["object"] for chunk in chunks] == ["chat.completion.chunk"] * len(chunks)
    assert {key for chunk in chunks for key in chunk} == {*OURS["chunk"], "flexchat"}
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert all(set(choice) == OURS["choice"] for choice in choices)
    assert {key for choice in choices for key in choice["delta"]} <= OURS["delta"]
    assert ["flexchat" in chunk for chunk in chunks].index(True) == len(chunks) - 2
    assert chunks[-1]["choices"] == []


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"no recordings at {RECORDINGS.parent.name}")
def test_recorded_servers_send_each_of_these_keys():
    """None is of our making: every key occurs in recorded streams."""
    seen = {name: set() for name in OURS}
    for file in RECORDINGS.glob("openai-chat*.json"):
        for chunk in recorded_chunks(json.loads(file.read_text())):
            choices = chunk.get("choices") or []
            seen["chunk"] |= set(chunk)
            seen["choice"] |= {key for choice in choices for key in choice}
            seen["delta"] |= {key for choice in choices for key in choice.get("delta") or ()}
    assert all(keys <= seen[name] for name, keys in OURS.items())


def recorded_chunks(data) -> Iterator[dict]:
    if isinstance(data, str) and "chat.completion.chunk" in data:
        for line in data.split("\n"):
            if line.startswith("data: {") and line.endswith("}"):
                yield json.loads(line[6:])
    for item in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from recorded_chunks(item)
