"""From an answer to a result, or to an error a model can act on."""

import contextlib
import json

import pytest
from flexchat.plugin import Fetched, FetchError, ToolError
from flexchat_http.answer import check_status, path_problem, pick, value_of
from hypothesis import given
from hypothesis import strategies as st


def answer(body=b"", kind="application/json", status=200, **headers):
    found = {"content-type": kind} if kind is not None else {}
    return Fetched(status=status, headers={**found, **headers}, body=body, url="https://api.example.com/x")


def refusal(status, body=b"", kind="application/json", key_sent=False, **headers):
    with pytest.raises(FetchError) as caught:
        check_status(
            answer(body, kind, status, **headers), lambda text: text.replace("s3cr3t", "***"), key_sent=key_sent
        )
    return caught.value


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [
        (b'{"a": 1}', "application/json", {"a": 1}),
        (b'{"a": 1}', "application/hal+json; charset=utf-8", {"a": 1}),
        (b'{"a": 1}', None, {"a": 1}),
        (b"hello", None, "hello"),
        (b"", "application/json", None),
        (b"  ", "application/json", None),
        (b"null", "application/json", None),
        (b"\xef\xbb\xbftext", "text/plain", "\ufefftext"),
        ('{"a": "é"}'.encode("latin-1"), "application/json; charset=ISO-8859-1", {"a": "é"}),
        ('{"a": "é"}'.encode("utf-16"), "application/json; charset=utf-16", {"a": "é"}),
        ('{"a": "é"}'.encode(), "application/json; charset=us-ascii", {"a": "é"}),
        (b'\xef\xbb\xbf{"a": 1}', "application/json; charset=utf-8", {"a": 1}),
        ("日本".encode("shift_jis"), "text/plain; charset='Shift_JIS'", "日本"),
        ("été".encode("cp1252"), "application/x-report; charset=windows-1252", "été"),
        (b"caf\xe9", "text/plain; charset=iso-8859-1", "café"),
        (b"caf\xe9", "text/html", "caf\ufffd"),
        (b"<a/>", "application/xml", "<a/>"),
        (b"a,b", "text/csv", "a,b"),
        (b'{"a":1}\n', "application/x-ndjson", '{"a":1}\n'),
    ],
)
def test_an_answer_is_read_by_its_content_type(body, kind, value):
    """JSON, text in its charset, nothing."""
    assert value_of(answer(body, kind)) == value


def test_reading_can_be_set():
    """By result."""
    assert value_of(answer(b"[1]", "text/plain"), reading="json") == [1]
    assert value_of(answer(b"[1]", "application/json"), reading="text") == "[1]"


@pytest.mark.parametrize("body", [b"{", b"NaN", b"[" * 100_000, b"\xff"])
def test_json_that_is_none_is_an_error_and_a_write_in_doubt(body):
    """The service has accepted it."""
    for is_write in (True, False):
        with pytest.raises(FetchError) as caught:
            value_of(answer(body), is_write=is_write)
        assert caught.value.may_have_arrived == is_write


def test_bytes_are_not_a_result():
    """For a write they are: it was accepted."""
    with pytest.raises(ToolError, match=r"image/png \(3 bytes\)"):
        value_of(answer(b"\x89PN", "image/png"))
    assert value_of(answer(b"\x89PN", "image/png"), is_write=True) == {"content_type": "image/png", "bytes": 3}


@pytest.mark.parametrize(
    ("status", "retryable", "arrived"),
    [
        (400, False, False),
        (401, False, False),
        (403, False, False),
        (404, False, False),
        (408, True, False),
        (409, False, False),
        (422, False, False),
        (425, True, False),
        (429, True, False),
        (500, True, True),
        (501, False, True),
        (502, True, True),
        (503, True, True),
        (504, True, True),
        (599, False, True),
        (302, False, True),
        (307, False, False),
        (308, False, False),
    ],
)
def test_what_a_status_means(status, retryable, arrived):
    """TC-55: 4xx is not retried, except those that ask for it; only 5xx leaves a write in doubt."""
    error = refusal(status)

    assert (error.retryable, error.may_have_arrived) == (retryable, arrived)
    assert f"api.example.com answered {status}" in str(error)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299, 303])
def test_successes(status):
    """A 303 after a write says where its result is."""
    check_status(answer(status=status), str)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b'{"title": "Bad", "detail": "no such city"}', "application/problem+json", "no such city"),
        (b'{"error": {"code": 1, "message": "no such city"}}', "application/json", "no such city"),
        (b'{"error": "no such city"}', "application/json", "no such city"),
        (b'{"errors": [{"field": "q"}]}', "application/json", '{"errors": [{"field": "q"}]}'),
        (b"no such\n  city", "text/plain", "no such city"),
        (b'"no such city"', "application/json", "no such city"),
    ],
)
def test_what_the_service_says_reaches_the_model(body, kind, said):
    """In one line."""
    assert str(refusal(400, body, kind)).endswith(f": {said}")


def test_web_pages_and_secrets_do_not():
    """And no more than 500 characters."""
    assert str(refusal(500, b"<html>long</html>", "text/html")) == "api.example.com answered 500 Internal Server Error"
    assert "s3cr3t" not in str(refusal(400, b'{"message": "key s3cr3t"}'))
    assert len(str(refusal(400, b"x" * 9_000, "text/plain"))) < 600


def test_waits_are_passed_on():
    """Retry-After."""
    assert refusal(429, **{"retry-after": "7"}).retry_after_s == 7.0


@pytest.mark.parametrize("body", [b'{"detail": "The Idempotency-Key is in use"}', b'{"type": "https://x/idempotency"}'])
def test_a_refusal_for_the_key_is_told_apart(body):
    """409: still being worked on, so asking again with the same key helps; 422: the key stands for something else."""
    conflict, reused = (refusal(status, body, key_sent=True) for status in (409, 422))

    assert (conflict.retryable, conflict.may_have_arrived) == (True, True)
    assert (reused.retryable, reused.may_have_arrived) == (False, True)
    assert not refusal(409, body).may_have_arrived
    assert not refusal(409, b'{"detail": "version conflict"}', key_sent=True).may_have_arrived


DATA = {"a": {"b": [1, 2], "c": None, "d-e": 3}, "list": [{"x": 1}, {"x": 2}]}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", DATA),
        ("$.a.b", [1, 2]),
        ("$.a.c", None),
        ("$.a.x.y", None),
        ("$.a.b.c", None),
        ("$['a']['d-e']", 3),
        ("$.list[0].x", 1),
        ("$.list[*].x", [1, 2]),
        ("$.list[?@.x > 1].x", 2),
        ("$..nothing", None),
    ],
)
def test_a_part_is_picked(path, value):
    """TC-56: one hit is the value, several are a list, none is null."""
    assert path_problem(path) is None
    assert pick(DATA, path) == value


@pytest.mark.parametrize("path", ["a", "$.", "$[", "$.a b", "", "$[?@.a =~ /x/]"])
def test_wrong_paths_are_named(path):
    """Only what RFC 9535 has."""
    assert path_problem(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=10,
)


@given(JSON, st.lists(st.sampled_from("abc"), max_size=3))
def test_simple_paths_mean_what_the_library_says(data, steps):
    """They are read without it, because it takes long to load."""
    dotted, bracketed = "$" + "".join(f".{s}" for s in steps), "$" + "".join(f"['{s}']" for s in steps)

    assert pick(data, dotted) == pick(data, bracketed) or (not steps and bracketed == "$")


@given(
    st.binary(max_size=60),
    st.sampled_from(["application/json", "text/plain; charset=x", "a/b", "", None]),
    st.integers(200, 599),
)
def test_any_answer_is_a_result_or_an_error(body, kind, status):
    """Never another exception; and every result is JSON data."""
    found = answer(body, kind, status)
    with contextlib.suppress(ToolError):
        check_status(found, str)
        json.dumps(value_of(found))


@pytest.mark.parametrize(
    ("body", "kind", "begins"),
    [
        (b"<html>Please sign in</html>", "application/json", "it begins with: <html>Please sign in</html>"),
        (b'{"a": NaN}', "application/json", 'it begins with: {"a": NaN}'),
        (b"\x00\x01", "application/json", "2 bytes that are no text"),
    ],
)
def test_json_that_cannot_be_read_is_quoted_with_its_status(body, kind, begins):
    with pytest.raises(FetchError) as caught:
        value_of(Fetched(status=203, headers={"content-type": kind}, body=body, url="https://a.example/x"))

    assert str(caught.value) == f"a.example answered 203 with JSON that cannot be read; {begins}"
