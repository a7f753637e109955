"""From settings and arguments to a request: each argument stays where it belongs."""

import json
from email.parser import BytesParser
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from flexchat.plugin import FetchRequest, ToolError
from flexchat_http.request import build_request, merge_headers, with_query
from flexchat_http.settings import HttpToolSettings
from flexchat_sdk.http.guard import checked_url
from hypothesis import given
from hypothesis import strategies as st

URL = "https://api.example.com/v1"
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
HOSTILE = [
    "../admin",
    "a/b",
    "a?b=c",
    "a#b",
    "a&b=c",
    "%2e%2e",
    "%2F",
    "a\\b",
    "\x00",
    "a\r\nb",
    "{id}",
    "☃",
    ";x",
    "@evil",
]


def built(arguments, url=URL, **settings):
    return build_request(HttpToolSettings(url=url, **settings), arguments)


@given(TEXTS | st.sampled_from(HOSTILE))
def test_an_argument_stays_within_its_segment(value):
    """Whatever it contains: slashes, dots, question marks, escapes."""
    try:
        request = built({"id": value, "q": value}, f"{URL}/users/{{id}}/posts?a={{id}}")
    except ToolError:
        assert value in ("", ".", "..")
        return
    parts = urlsplit(request.url)

    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "api.example.com", "")
    head, users, segment, posts = parts.path.split("/")[1:]
    assert (head, users, unquote(segment), posts) == ("v1", "users", value, "posts")
    assert parse_qsl(parts.query, keep_blank_values=True) == [("a", value), ("q", value)]
    assert checked_url(request.url).text == request.url  # nothing reads it in another way


@pytest.mark.parametrize("value", [".", "..", "", None, []])
def test_what_would_change_the_path_is_refused(value):
    """A dot segment, or nothing at all: DELETE /users/ is not DELETE /users/7."""
    with pytest.raises(ToolError, match="'id' "):
        built({"id": value}, f"{URL}/users/{{id}}", method="DELETE")


def test_dots_made_of_two_placeholders_are_refused():
    """Each alone is harmless."""
    with pytest.raises(ToolError):
        built({"a": ".", "b": "."}, f"{URL}/{{a}}{{b}}/x")


@given(st.dictionaries(TEXTS.filter(bool), TEXTS | st.integers() | st.booleans() | st.lists(TEXTS), max_size=5))
def test_without_a_mapping_everything_is_sent_under_its_own_name(arguments):
    """GET: in the query; POST: as a JSON body; as a form."""
    expected = []
    for name, value in arguments.items():
        for each in value if isinstance(value, list) else [value]:
            expected.append((name, each if isinstance(each, str) else json.dumps(each)))

    assert parse_qsl(urlsplit(built(arguments).url).query, keep_blank_values=True) == expected
    assert json.loads(built(arguments, method="POST").body) == arguments
    form = built(arguments, method="POST", body="form")
    assert parse_qsl(form.body.decode(), keep_blank_values=True) == expected


def test_a_mapping_renames_places_and_leaves_out():
    """TC-51: unmapped and absent arguments are not sent."""
    mapping = {
        "a": "x",
        "b": "query:y",
        "c": "header:X-C",
        "d": "cookie:d",
        "e": "body:user.name",
        "f": "body:user.age",
    }
    settings = {"method": "POST", "params_mapping": {**mapping, "g": "path:id", "absent": "z"}}
    arguments = {"a": [1, None], "b": True, "c": 3, "d": "v;w", "e": "Ann", "f": 5, "g": "i", "h": "unmapped"}

    request = built(arguments, f"{URL}/{{id}}", **settings)

    assert request.url == f"{URL}/i?y=true"
    assert request.headers == {"Content-Type": "application/json", "X-C": "3", "Cookie": "d=v%3Bw"}
    assert json.loads(request.body) == {"x": [1, None], "user": {"name": "Ann", "age": 5}}


def test_null_is_left_out_of_query_headers_and_forms():
    """A JSON body keeps it."""
    assert built({"q": None}).url == URL
    assert built({"q": None}, params_mapping={"q": "header:X"}).headers == {}
    assert built({"q": None}, method="POST", body="form").body == b""
    assert built({"q": None}, method="POST").body == b'{"q":null}'


def test_objects_in_a_query_are_json():
    """Lists repeat the name; there is no agreement about objects."""
    assert built({"q": {"a": 1}}).url == f"{URL}?q=%7B%22a%22%3A%201%7D"


@given(st.dictionaries(TEXTS.filter(bool), TEXTS, min_size=1, max_size=4))
def test_multipart_is_read_as_it_was_written(fields):
    """By another reader, and equal for equal arguments."""
    request = built(fields, method="POST", body="multipart")
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    parts = BytesParser().parsebytes(head + request.body).get_payload()

    assert len(parts) == len(fields)
    assert request == built(fields, method="POST", body="multipart")
    assert all(text.encode() in request.body for text in fields.values())


def test_a_body_of_text():
    """One argument."""
    request = built({"q": "a\nb ☃"}, method="PUT", body="text")

    assert (request.body.decode(), request.headers) == ("a\nb ☃", {"Content-Type": "text/plain; charset=utf-8"})
    with pytest.raises(ToolError, match="one argument"):
        built({"a": "", "b": ""}, method="PUT", body="text")


def test_the_operators_headers_win():
    """Over a content type, and over an argument of the same name in any case."""
    request = built(
        {"q": "mine"},
        method="POST",
        params_mapping={"q": "header:x-tenant"},
        headers={"X-Tenant": "ours", "content-type": "application/vnd.api+json"},
    )

    assert request.headers == {"content-type": "application/vnd.api+json", "X-Tenant": "ours"}
    assert merge_headers({"A": "1"}, {"a": "2"}) == {"a": "2"}


def test_a_parameter_is_added_to_a_query():
    """Whether there is one or not."""
    for url, expected in ((f"{URL}", f"{URL}?k=a%26b"), (f"{URL}?x=1", f"{URL}?x=1&k=a%26b")):
        assert with_query(FetchRequest(url=url), "k", "a&b").url == expected
