"""Chunks have the form that real servers send."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from flexchat_testing import calls, says

ROOT = Path(__file__).resolve().parents[4]
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


def content_of(events):
    deltas = [choice["delta"] for _, data in events if data != "[DONE]" for choice in data["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


async def asked(told, sse, **more):
    body = {"model": "flexchat", "messages": [{"role": "user", "content": "x"}], "stream": True, **more}
    return sse((await (await told.client()).post("/v1/chat/completions", json=body)).text)


async def test_what_a_client_puts_together_has_the_form_it_asked_for(told, sse):
    """Not the answer that did not fit and then the one that does; and no fence."""
    told.says(says("It is four."), says('```json\n{"value": 4}\n```'))

    events = await asked(told, sse, response_format={"type": "json_object"})

    assert json.loads(content_of(events)) == {"value": 4}
    assert next(data["flexchat"]["parsed"] for _, data in events if "flexchat" in data) == {"value": 4}


async def test_an_answer_that_paused_is_one_text(told, sse):
    """Without a line between its halves; the whole answer says the same."""
    told.says(says("Searching", finish_reason="pause"), says(" and found."))

    events = await asked(told, sse)

    assert content_of(events) == "Searching and found."
    assert next(data["flexchat"]["content"] for _, data in events if "flexchat" in data) == "Searching and found."


async def test_a_stream_is_not_silent_while_tools_run(told):
    """Comments, which clients skip: the chunks are those of a stream without tools."""
    told.says(calls(("get_weather", {"city": "Rome"})), says("It is warm."))
    body = {"model": "flexchat", "messages": [{"role": "user", "content": "x"}], "stream": True}

    text = (await (await told.client()).post("/v1/chat/completions", json=body)).text

    comments = [block for block in text.split("\n\n") if block.startswith(":")]
    assert comments == [": the tool get_weather runs", ": the tool get_weather has finished"]
    chunks = [block.removeprefix("data: ") for block in text.split("\n\n") if block.startswith("data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in json.loads(chunk)["choices"]]
    assert "".join(delta["content"] for delta in deltas if delta) == "It is warm."
