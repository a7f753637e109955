"""docs/web-frameworks.md: its application answers."""

import re
from pathlib import Path

import pytest
from flexchat import Turn

pytest.importorskip("fastapi")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "web-frameworks.md").read_text()


def test_its_application_answers():
    """A turn as JSON, that goes on with its messages; a stream of text; a refusal of what fits nothing."""
    from starlette.testclient import TestClient

    names = {"__name__": "travel"}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "travel", "exec", dont_inherit=True), names)

    with TestClient(names["app"]) as client:
        first = client.post("/ask", json={"message": "Find flights from Rome to Oslo"})
        told = first.json()
        second = client.post("/ask", json={"message": "And back?", "history": told["messages"]})
        streamed = client.post("/ask/stream", json={"message": "Find flights from Rome to Oslo"})
        refused = client.post("/ask", json={"message": ""})
        wrong = client.post("/ask", json={"message": "x", "history": [{"role": "oracle", "content": "x"}]})

    assert (first.status_code, second.status_code, refused.status_code) == (200, 200, 422)
    assert Turn.from_dict(told).tool_calls[0].tool == "find_flights"
    assert streamed.text == told["content"]
    assert (wrong.status_code, "history[0]" in wrong.json()["detail"]) == (502, True)
