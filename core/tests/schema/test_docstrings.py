"""Docstrings in three styles."""

import inspect

import pytest
from flexchat.schema.docstrings import read_docstring
from hypothesis import given
from hypothesis import strategies as st

GOOGLE = """
    Get the forecast
    of a city.

    More about it.

    Args:
        location: City name,
            such as Berlin: the capital.
        days (int, optional): How many days ahead.
        *rest:
            Others.

    Returns:
        text: not a parameter
    """
NUMPY = """
    Get the forecast
    of a city.

    More about it.

    Parameters
    ----------
    location : str
        City name,
        such as Berlin: the capital.
    days : int, optional
        How many days ahead.
    *rest
        Others.

    Returns
    -------
    text : str
        not a parameter
    """
SPHINX = """Get the forecast
    of a city.

    More about it.

    :param location: City name,
        such as Berlin: the capital.
    :param int days: How many days ahead.
    :type days: int
    :keyword rest: Others.
    :returns: not a parameter
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX])
def test_every_style_says_the_same(docstring):
    """Google, NumPy and Sphinx give one result; only parameters are read."""
    read = read_docstring(inspect.cleandoc(docstring))

    assert read.summary == "Get the forecast of a city."
    assert read.parameters == {
        "location": "City name, such as Berlin: the capital.",
        "days": "How many days ahead.",
        "rest": "Others.",
    }


@pytest.mark.parametrize("text", ["Args:\n    a: b", "Parameters\n----------\na\n    b", ":param a: b"])
def test_a_section_is_no_summary(text):
    """A docstring of nothing but parameters says nothing of the function."""
    read = read_docstring(text)

    assert read.summary == ""
    assert read.parameters == {"a": "b"}


def test_several_names_share_a_numpy_entry():
    """``x, y : float`` describes both."""
    assert read_docstring("S.\n\nParameters\n----------\nx, y : float\n    Place.").parameters == {
        "x": "Place.",
        "y": "Place.",
    }


@given(st.text(alphabet="ab :\n-()*Args,", max_size=60) | st.text(max_size=40))
def test_any_text_can_be_read(text):
    """Prose that is in no style is no error."""
    assert isinstance(read_docstring(text).summary, str)
