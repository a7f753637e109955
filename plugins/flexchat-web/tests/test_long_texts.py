"""Bodies with files in Base64, which are read without further copies of them: as any other body."""

import base64
import json
import pickle

import pytest
from flexchat_web.api.media import decoded
from flexchat_web.checking import QUICK_BYTES, Route, restored
from flexchat_web.operations import Operations
from flexchat_web.problems import ApiError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

FILE = base64.b64encode(bytes(range(256)) * 300).decode()
URL = f"data:image/png;base64,{FILE}"
LIMITED = {"type": "object", "properties": {"id": {"maxLength": 200}}}


async def take(call):
    """Take a body."""


def read(raw, schema=None, base64_at=None):
    operations = Operations("any")
    operations("POST", "/any", body=schema or {}, answer={}, base64_at=base64_at)(take)
    return Route(operations.declared[0]).body(bytearray(raw), "application/json")


texts = st.sampled_from([FILE, URL, FILE[:-1] + "=", "short", "", 'a "quoted" text', "\\", "ü" * 40_000, "x:" + FILE])
values = st.recursive(
    texts | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(values, st.sampled_from([(",", ":"), (" , ", " \n:  ")]))
def test_a_body_is_what_its_json_is(value, separators):
    raw = json.dumps(value, separators=separators, ensure_ascii=False).encode()
    unread = read(raw)
    assert unread.read() == value

    elsewhere = pickle.loads(pickle.dumps(unread.shortened()))
    assert restored(elsewhere.read_marked(), unread.texts) == value


def test_files_are_neither_parsed_nor_sent_to_another_process():
    unread = read(json.dumps({"prompt": "Look.", "attachments": [{"data": FILE}, {"data": URL}]}).encode())
    assert unread.is_quick
    assert len(unread.raw) < 200
    assert sorted(unread.texts.values()) == sorted([FILE, URL])
    assert len(pickle.dumps(unread.shortened())) < 3 * QUICK_BYTES


def test_files_of_one_field_are_parts_of_the_body_and_all_other_texts_are_texts():
    """Those of the field in other places as well: no plugin gets a memoryview in a variable."""
    value = {"attachments": [{"data": FILE, "name": FILE}, {"data": "short"}], "data": FILE, "to": {"data": [FILE]}}
    unread = read(json.dumps(value).encode(), base64_at=("attachments", "data"))

    body = unread.read()
    part = body["attachments"][0]["data"]

    assert isinstance(part, memoryview)
    body["attachments"][0]["data"] = str(part, "ascii")
    assert body == value
    assert pickle.loads(pickle.dumps(unread.shortened())).read_marked().keys() == value.keys()
    assert decoded(part, "data") == base64.b64decode(FILE)


@pytest.mark.parametrize(
    "raw", [f'{{"a": "{FILE}"', f'{{"a": "b" "{FILE}"}}', f'{{"a": "{FILE}", "a": 1}}', f'{{"{FILE}": 1, "{FILE}": 2}}']
)
def test_what_is_no_json_stays_none(raw):
    with pytest.raises(ApiError) as refused:
        read(raw.encode()).read()
    assert refused.value.status == 400


def test_a_long_text_is_held_to_the_schema():
    with pytest.raises(ApiError, match="does not match the schema"):
        read(json.dumps({"id": FILE}).encode(), LIMITED).read()


@given(
    st.binary(max_size=70_000), st.integers(0, 100_000), st.sampled_from(["", "=", "==", "A", "\n", "-", "ü", "===="])
)
def test_base64_is_decoded_like_that_of_the_standard_library(data, place, more):
    text = base64.b64encode(data).decode()
    text = text[:place] + more + text[place:]
    assume("===" not in text)  # more padding than any text has; the standard library passes over it
    try:
        expected = base64.b64decode(text, validate=True)
    except ValueError:
        with pytest.raises(ApiError, match="this is not Base64"):
            decoded(text, "data")
        with pytest.raises(ApiError, match="this is not Base64"):
            decoded(memoryview(bytearray(text.encode())), "data")
    else:
        assert decoded(text, "data") == decoded(memoryview(bytearray(text.encode())), "data") == expected
        assert decoded(f"data:,{text}", "data", start=6) == expected
