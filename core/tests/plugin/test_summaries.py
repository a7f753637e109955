"""Records have the first line of a docstring as their summary."""

import functools

import attrs
import pytest
from flexchat.plugin import ImplementationType
from flexchat.plugin.tool_sources import ToolSourceType
from flexchat.store import RerankerType


@attrs.frozen(kw_only=True)
class Settings:
    """A fixed text."""


class Undocumented:
    pass


async def run(settings, params, context):
    """Answer with
    one text.

    More about it.
    """


def test_the_docstring_of_what_runs_it_comes_first():
    assert ImplementationType(name="a", settings_class=Settings, run=run).summary == "Answer with one text"


@pytest.mark.parametrize("made", [lambda *args: None, functools.partial(run, None)])
def test_without_one_that_of_the_settings_counts(made):
    assert ImplementationType(name="a", settings_class=Settings, run=made).summary == "A fixed text"
    assert ToolSourceType(name="a", config_class=Settings, open=made).summary == "A fixed text"


def test_a_summary_of_its_own_wins():
    assert RerankerType(name="a", create=Settings, summary="Mine").summary == "Mine"
    assert RerankerType(name="a", create=Undocumented).summary == ""


def test_an_inherited_docstring_says_nothing_about_the_class():
    class Child(Settings):
        pass

    assert RerankerType(name="a", create=Child).summary == ""
