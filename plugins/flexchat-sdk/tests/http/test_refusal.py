"""What a service says when it refuses, on its way into an error."""

from flexchat_sdk.http.secrets import key_mask, refusal_data, refusal_text
from hypothesis import given
from hypothesis import strategies as st

KEY = "AIzaCanary4711secret"
MASK = key_mask([KEY])


@given(st.integers(0, 250), st.integers(30, 220))
def test_no_cut_runs_through_a_key(before, longest):
    """Cut first and masked then, a key at the cut would show its beginning."""
    told = refusal_text("x" * before + KEY + " y" * 300, MASK, longest)

    assert len(told) <= longest
    assert KEY[:6] not in told


def test_a_text_is_one_line():
    """Pages and traces are full of blank lines."""
    assert refusal_text("  a\n\n b\t c ", MASK) == "a b c"


@given(st.binary(max_size=30))
def test_any_body_can_be_told(body):
    """JSON data, or a text."""
    found = refusal_data(body)

    assert found is None or isinstance(found, str | int | float | bool | list | dict)


def test_json_is_data_and_all_else_is_text():
    """A body that is broken off is still worth reading."""
    assert refusal_data(b'{"error": "no"}') == {"error": "no"}
    assert refusal_data(b'{"error": "n') == '{"error": "n'
