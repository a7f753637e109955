"""Words, and which of them count as the same."""

import pytest
from flexchat_mock.rehearsal.values import content_stems, name_words, stem, words_of


@pytest.mark.parametrize(
    "family",
    [
        "search searching searched",
        "city cities city's",
        "translate translates translation translating",
        "stop stopped stopping",
        "call calls called calling",
        "calculator calculate compute",
        "time clock datetime",
    ],
)
def test_the_words_of_a_family_have_one_stem(family):
    stems = {stem(word) for word in family.split()}

    assert len(stems) == 1


def test_an_identifier_is_read_as_its_words():
    assert name_words("maxResults_of-day 2") == ("max", "results", "of", "day", "2")
    assert content_stems("get_weather") == {"weather"}


def test_words_keep_their_apostrophes_and_those_that_say_nothing_do_not_count():
    assert [word[0] for word in words_of("What's up, dogs'?")] == ["What's", "up", "dogs"]
    assert content_stems("What is the use of it?") == set()
