"""The table of styles of the specification, and what none of them lets through."""

import pytest
from flexchat_http.openapi.request import as_text, encode, in_header, in_path, in_query
from hypothesis import given
from hypothesis import strategies as st

EMPTY, TEXT, LIST, OBJECT = "", "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}


def query(value, style, explode):
    return "&".join(f"{name}={text}" for name, text in in_query("color", value, style, explode))


@pytest.mark.parametrize(
    ("style", "explode", "empty", "text", "array", "table"),
    [
        ("matrix", False, ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
        ("matrix", True, ";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
        ("label", False, ".", ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
        ("label", True, ".", ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
        ("simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
        ("simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ],
)
def test_styles_of_paths_are_those_of_the_specification(style, explode, empty, text, array, table):
    """OpenAPI 3.1.1 §4.8.12.4."""
    made = [in_path("color", value, style, explode) for value in (EMPTY, TEXT, LIST, OBJECT)]

    assert made == [empty, text, array, table]


@pytest.mark.parametrize(
    ("style", "explode", "empty", "text", "array", "table"),
    [
        ("form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
        ("form", True, "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        ("spaceDelimited", False, "color=", "color=blue", "color=blue%20black%20brown",
         "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, "color=", "color=blue", "color=blue%7Cblack%7Cbrown",
         "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("spaceDelimited", True, "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        ("deepObject", True, "color=", "color=blue", "color=blue&color=black&color=brown",
         "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ],
)  # fmt: skip
def test_styles_of_queries_are_those_of_the_specification(style, explode, empty, text, array, table):
    """OpenAPI 3.1.1 §4.8.12.4."""
    assert [query(value, style, explode) for value in (EMPTY, TEXT, LIST, OBJECT)] == [empty, text, array, table]


def test_headers_are_simple_and_not_encoded():
    assert [in_header(value, False) for value in (TEXT, LIST, OBJECT)] == [
        "blue",
        "blue,black,brown",
        "R,100,G,200,B,150",
    ]
    assert in_header(OBJECT, True) == "R=100,G=200,B=150"


def test_deep_objects_may_be_deeper_and_have_lists():
    value = {"a": {"b": 1}, "c": [1, 2]}

    assert query(value, "deepObject", True) == "color%5Ba%5D%5Bb%5D=1&color%5Bc%5D=1&color%5Bc%5D=2"


def test_an_empty_list_is_not_sent():
    assert in_query("color", [], "form", False) == in_query("color", [], "form", True) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "null"),
        (3.0, "3"),
        (2.5, "2.5"),
        (1e300, "1e+300"),
        ({"a": 1}, '{"a":1}'),
        (10**20, "1" + "0" * 20),
    ],
)
def test_single_values_are_written_as_in_json(value, text):
    assert as_text(value) == text


def test_allow_reserved_keeps_what_ends_nothing():
    """# & = + [ ] would; what is percent-encoded already stays."""
    assert encode("a/b?c:d,e%20f#&=+[ ]%", allow_reserved=True) == "a/b?c:d,e%20f%23%26%3D%2B%5B%20%5D%25"


@given(st.text(), st.sampled_from(["simple", "label", "matrix"]), st.booleans())
def test_nothing_in_a_path_value_ends_its_segment(text, style, explode):
    for value in (text, [text], {text: text}):
        assert not set(in_path("p", value, style, explode)) & set("/?#%\\ \r\n") - {"%"}


@given(
    st.text(), st.sampled_from(["form", "spaceDelimited", "pipeDelimited", "deepObject"]), st.booleans(), st.booleans()
)
def test_nothing_in_a_query_value_ends_it(text, style, explode, reserved):
    for value in (text, [text], {text: text}):
        for name, each in in_query("p", value, style, explode, allow_reserved=reserved):
            assert not set(name + each) & set("&=#+ \r\n")
            assert (name + each).isascii()
