"""Limits over HTTP: 429 with Retry-After at each entrance, before anything is sent to a model."""

from __future__ import annotations

import pytest

ENTRANCES = {
    "/chat/api": {"prompt": "Hello"},
    "/v1/chat/completions": {"model": "flexchat", "messages": [{"role": "user", "content": "Hello"}]},
    "/v1/responses": {"model": "flexchat", "input": "Hello", "store": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", ENTRANCES)
async def test_a_turn_beyond_a_limit_is_answered_429(told, client_of, path, is_stream):
    """The second of a minute; the model has one request."""
    told.model = told.says("Yes.", "Yes.")
    told.tables["rate_limits"] = [{"rate": "1/min"}]
    body = {**ENTRANCES[path], "stream": is_stream}
    async with client_of(told.app()) as client:
        first = await client.post(path, json=body)
        second = await client.post(path, json=body)

    assert first.status_code == 200, first.text
    assert second.status_code == 429, second.text
    assert 1 <= int(second.headers["retry-after"]) <= 60
    assert "limited to 1/min" in second.text
    assert len(told.model.requests) == 1
