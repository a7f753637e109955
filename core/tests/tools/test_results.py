"""What a tool returned becomes JSON or an explained error, and the model is shown a bounded part of it."""

import collections
import dataclasses
import datetime
import enum
import ipaddress
import json
import re
import types
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath

import attrs
import numpy
import pydantic
import pytest
from flexchat.domain import ToolResult
from flexchat.tools.results import as_json, for_the_model, whole_text
from hypothesis import given
from hypothesis import strategies as st

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


MARKER = len("\\n[… 100,000 of 100,000 characters left out …]\\n") + 2


@attrs.frozen
class Point:
    x: int
    y: int


@dataclasses.dataclass
class Pair:
    left: Point
    right: str


class Colour(enum.Enum):
    RED = "red"


@given(plain)
def test_json_data_stays_as_it_is(value):
    """The value and its text say the same."""
    kept, text = as_json(value)

    assert kept == value
    assert json.loads(text) == value


def test_what_has_one_obvious_form_is_converted():
    """Deeply, and the record then holds plain data."""
    when = datetime.datetime(2026, 11, 21, 10, 30, tzinfo=datetime.UTC)
    value = {"when": when, "id": uuid.UUID(int=1), "c": Colour.RED, "p": Pair(Point(1, 2), "r"), "t": (1, {2})}
    value["path"] = PurePosixPath("a/b")

    kept, text = as_json(value)

    assert kept == json.loads(text)
    assert kept == {
        "when": "2026-11-21T10:30:00+00:00",
        "id": "00000000-0000-0000-0000-000000000001",
        "c": "red",
        "p": {"left": {"x": 1, "y": 2}, "right": "r"},
        "t": [1, [2]],
        "path": "a/b",
    }


def loop() -> list:
    items: list = []
    items.append(items)
    return items


class Odd(enum.IntEnum):
    ONE = 1


@pydantic.dataclasses.dataclass
class Checked:
    x: Decimal


class Model(pydantic.BaseModel):
    when: datetime.date
    share: float


class Text(str):
    __slots__ = ()


Place = collections.namedtuple("Place", "x y")


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (float("nan"), None),
        ([1.5, float("inf"), -float("inf")], [1.5, None, None]),
        (Decimal("19.90"), "19.90"),
        (Decimal("NaN"), None),
        (Fraction(1, 3), "1/3"),
        (datetime.timedelta(minutes=1, milliseconds=500), 60.5),
        (datetime.time(9, 30), "09:30:00"),
        (ipaddress.ip_address("::1"), "::1"),
        ({3, 10, 2}, [2, 3, 10]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (collections.deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        ({"a": 1}.values(), [1]),
        (types.MappingProxyType({"a": {1}}), {"a": [1]}),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        (Place(1, 2), [1, 2]),
        (Text("a"), "a"),
        (Odd.ONE, 1),
        (Checked(Decimal("1.10")), {"x": "1.10"}),
        (Model(when=datetime.date(2026, 1, 2), share=float("nan")), {"when": "2026-01-02", "share": None}),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        ({2.5: 1, Colour.RED: 2, uuid.UUID(int=1): 3}, {"2.5": 1, "red": 2, str(uuid.UUID(int=1)): 3}),
        ({datetime.date(2026, 1, 2): {Decimal("1.0"): 1}}, {"2026-01-02": {"1.0": 1}}),
        (numpy.int64(7), 7),
        (numpy.float32(0.5), 0.5),
        (numpy.bool_(True), True),
        ({"n": numpy.float64("nan"), "t": numpy.str_("x")}, {"n": None, "t": "x"}),
        (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (numpy.datetime64("2026-01-02"), "2026-01-02"),
        ({numpy.int64(1): 1}, {"1": 1}),
    ],
)
def test_what_python_programs_return_is_converted(value, data):
    kept, text = as_json(value)

    assert kept == data
    assert type(kept) is type(data)
    assert json.loads(text) == data


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "a object has no JSON form"),
        (b"x", "bytes are not text; decode them"),
        (loop(), "a list contains itself"),
        (print, "has no JSON form"),
        (Point, "has no JSON form"),
        ((x for x in "ab"), "a generator has no JSON form"),
        ({1: "a", "1": "b"}, "two of its keys are written '1'"),
        ({(1, 2): "a"}, "a key of type tuple has no JSON form"),
        (10**5_000, "an integer has too many digits"),
    ],
    ids=lambda value: "" if isinstance(value, int) else None,
)
def test_what_has_no_json_form_is_refused(value, why):
    with pytest.raises(ValueError, match=f"the tool returned something that is not JSON: .*{re.escape(why)}"):
        as_json(value)


@given(value=plain, size=st.integers(200, 400))
def test_the_model_sees_all_or_head_marker_and_tail(value, size):
    """Always the specified envelope, never much longer than asked for."""
    kept, encoded = as_json(value)
    result = ToolResult(success=True, tool_name="t", result=kept, encoded=encoded)

    body = json.loads(for_the_model(result, size))

    assert body["success"] is True
    if len(encoded) <= size:
        assert body["result"] == value
    else:
        assert len(body["result"]) <= size + 80


def test_a_long_error_is_cut_too():
    """A tool that raises a book."""
    body = json.loads(for_the_model(ToolResult.failed("t", "e" * 10_000), 300))

    assert len(body["error"]) < 400
    assert body["success"] is False


@given(value=plain | st.text('"\\\n\x01a', min_size=150), size=st.integers(200, 400))
def test_what_is_shown_is_counted_as_the_model_reads_it(value, size):
    """Escaping makes a text longer; the limit holds for the JSON text, around the marker."""
    kept, encoded = as_json(value)
    told = for_the_model(ToolResult(success=True, tool_name="t", result=kept, encoded=encoded), size)
    envelope = len(ToolResult(success=True, tool_name="t", result="", encoded='""').to_json())

    assert len(told) <= envelope + size + MARKER


@given(error=st.text('"\n\x01a', max_size=900), hint=st.text('"\na', max_size=900))
def test_error_and_hint_are_counted_together(error, hint):
    """As the model reads them; a short one is whole, however long the other is."""
    result = ToolResult.failed("t", error, hint=hint)

    told = json.loads(for_the_model(result, 400))

    shown = [json.dumps(told[key], ensure_ascii=False) for key in ("error", "hint") if key in told]
    assert sum(map(len, shown)) <= 400 + 2 * MARKER
    assert told["error"] == error or len(json.dumps(error)) > 198
    assert told.get("hint", "") == hint or len(json.dumps(hint)) > 198


def test_the_model_reads_the_name_it_knows_the_tool_by():
    """Services take fewer names than we do: note.down is sent as note_down."""
    result = ToolResult(success=True, tool_name="note.down", result=1)

    assert json.loads(for_the_model(result, 300, "note_down"))["tool_name"] == "note_down"
    assert result.tool_name == "note.down"


def test_a_lone_surrogate_is_replaced():
    """No provider takes one."""
    result = ToolResult(success=True, tool_name="t", result="a\ud800b", encoded='"a\ud800b"')

    assert json.loads(for_the_model(result, 300))["result"] == "a\ufffdb"


def test_the_marker_says_how_to_read_on_where_that_is_possible():
    """And stays as it is elsewhere; nothing else differs."""
    result = ToolResult(success=True, tool_name="t", result="a" * 150 + "b" * 20_000 + "c" * 50)
    plain, told = (json.loads(for_the_model(result, 200, id=id))["result"] for id in (None, "call_1"))

    assert plain == "a" * 150 + "\n[… 20,000 of 20,200 characters left out …]\n" + "c" * 50
    assert told == plain.replace("left out", 'left out: read_result(result="call_1", start=150) reads on')
    assert for_the_model(ToolResult(success=True, tool_name="t", result="a" * 198), 200, id="call_1") == for_the_model(
        ToolResult(success=True, tool_name="t", result="a" * 198), 200
    )


def test_hint_and_error_of_a_failure_are_one_text_to_read_on_in():
    """The hint begins behind the error and the end of its line."""
    result = ToolResult.failed("t", "e" * 1_000, hint="h" * 500)

    told = json.loads(for_the_model(result, 400, id="call_1"))

    assert 'read_result(result="call_1", start=1151)' in told["hint"]
    assert whole_text(result)[1151:] == "h" * 350
    assert told["error"].startswith("e" * 100)
    assert re.search(r'read_result\(result="call_1", start=\d+\)', told["error"])


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult(success=True, tool_name="t", result="a\ud83d\ude00\ud800"), "a😀\ufffd"),
        (ToolResult(success=True, tool_name="t", result={"a": ["é", 1.0]}), '{"a": ["é", 1.0]}'),
        (ToolResult(success=True, tool_name="t", result=None), "null"),
        (ToolResult.failed("t", "no"), "no"),
        (ToolResult.failed("t", "no", hint="yes"), "no\nyes"),
    ],
)
def test_the_whole_text_is_what_the_model_is_shown_a_part_of(result, text):
    assert whole_text(result) == text
