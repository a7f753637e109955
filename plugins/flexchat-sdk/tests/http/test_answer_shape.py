"""What of an answer is an error and what counts as absent."""

import pytest
from flexchat_sdk.http.answer_shape import (
    FirstAnswer,
    WrongShape,
    known_count,
    known_number,
    known_text,
    list_in,
    number_in,
    object_in,
    objects_of,
    text_in,
)

ONE_OF_EACH = (None, True, 1, 1.5, "x", [1], {"a": 1})


@pytest.mark.parametrize(
    ("read", "kind", "nothing"), [(object_in, dict, None), (list_in, list, []), (text_in, str, "")]
)
def test_where_text_or_calls_stand_only_the_right_type_and_nothing_are_read(read, kind, nothing):
    """Every other type raises, with the place, what was expected and what was found; null only where it is needed."""
    assert read({}, "x", "here") == nothing
    assert read({}, "x", "here", needed=True) == nothing
    for value in ONE_OF_EACH:
        if type(value) is kind:
            assert read({"x": value}, "x", "here", needed=True) is value
        elif value is None:
            assert read({"x": None}, "x") == nothing
            with pytest.raises(WrongShape, match=r"^here\.x: expected .*, got null$"):
                read({"x": None}, "x", "here", needed=True)
        else:
            with pytest.raises(WrongShape, match=r"^x: expected "):
                read({"x": value}, "x")


def test_a_wrong_shape_says_what_was_found():
    """In words."""
    for value, words in [(True, "true or false"), (1.5, "a number"), ("t", "text"), ([], "a list")]:
        with pytest.raises(WrongShape, match=rf"^choices\[0\]\.delta: expected an object, got {words}$"):
            object_in({"delta": value}, "delta", "choices[0]")


@pytest.mark.parametrize(("value", "number"), [(None, None), (3, 3), ("3", 3), (3.0, 3)])
def test_a_number_may_be_written_in_three_ways(value, number):
    """Gateways write an index as text and as a fraction."""
    assert number_in({"index": value}, "index") == known_number(value) == number


@pytest.mark.parametrize("value", [True, 1.5, "", "x", "-1", "³", "1" * 10, [], {}, float("inf")])
def test_what_is_not_a_number_places_nothing(value):
    """It raises where it counts."""
    assert known_number(value) is None
    with pytest.raises(WrongShape, match="a whole number"):
        number_in({"index": value}, "index")


def test_every_item_of_a_list_of_objects_is_one():
    """Each with its place; the first that is not raises."""
    found = objects_of([{"a": 1}, None], "parts")

    assert next(found) == ("parts[0]", {"a": 1})
    with pytest.raises(WrongShape, match=r"parts\[1\]: expected an object, got null"):
        next(found)


def test_elsewhere_a_wrong_type_counts_as_absent():
    """Nothing is raised."""
    assert [known_text(value) for value in (*ONE_OF_EACH, "")] == [None, None, None, None, "x", None, None, None]
    assert [known_count({"n": value}, "n") for value in ONE_OF_EACH] == [None, None, 1, None, None, None, None]
    assert [known_count(table, "n") for table in (None, 5, [], "n")] == [None] * 4
    assert known_count({"n": 7.0}, "n") == 7


def test_the_first_of_several_answers_is_told_by_its_number():
    """However the number is written."""
    first = FirstAnswer()
    assert [first.includes(number, "index") for number in (0, "0", 0.0, 1, "2")] == [True, True, True, False, False]


def test_a_number_that_cannot_be_read_is_an_error_only_among_several():
    """Alone, it is the first answer's, whatever it says."""
    for numbers in ((None, 1), (1, "x"), ([], 0, 2)):
        first = FirstAnswer()
        with pytest.raises(WrongShape, match="index: expected the number of an answer"):
            [first.includes(number, "index") for number in numbers]
    assert FirstAnswer().includes({}, "index")
