"""Names of tools as providers take them."""

import re

from flexchat.tools.registry import wire_names
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.lists(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}", fullmatch=True), unique=True, max_size=12)


def test_a_dot_becomes_an_underscore():
    """What everybody takes stays, what not is sent under a name much like it."""
    assert wire_names(["weather.get", "echo"]) == {"weather.get": "weather_get", "echo": "echo"}


def test_a_name_that_is_taken_gets_a_checksum():
    """The tool that needs no other name keeps its own, in whatever order they come."""
    first, second = wire_names(["a.b", "a_b"]), wire_names(["a_b", "a.b"])

    assert first["a_b"] == second["a_b"] == "a_b"
    assert first["a.b"] == second["a.b"] != "a_b"


def test_a_name_that_differs_only_in_case_is_taken():
    """Services that fold case would see one tool twice."""
    assert wire_names(["A.b", "a_b"])["A.b"].lower() != "a_b"


@given(NAMES)
def test_every_name_is_taken_by_every_provider_and_by_one_tool(names):
    """Legal at OpenAI, Gemini, Ollama and Anthropic; one tool each; the same again for the same names."""
    sent = wire_names(names)

    assert [*sent].sort() == [*names].sort()
    assert len(set(sent.values())) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in sent.values())
    assert sent == wire_names(names)
