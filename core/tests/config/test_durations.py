"""Durations in a config: a whole number and a unit."""

import pytest
from flexchat import FlexChat
from flexchat.config.model import duration_s, read_since
from flexchat.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("0s", 0), ("90s", 90), ("2h", 7_200), ("7d", 604_800), ("5200w", 3_144_960_000)]
)
def test_a_duration_has_a_unit(text, seconds):
    assert duration_s(text) == seconds


def test_a_beginning_is_a_duration_ago_or_a_date_in_utc():
    assert read_since("2026-11-28") == read_since("2026-11-28T02:00+02:00") == 1_795_824_000
    assert read_since("1970-01-01T00:00:05Z") == 5
    assert read_since("7d") > read_since("2w") > read_since("5200w") == read_since("1900-01-01") == 0


@pytest.mark.parametrize(
    "text", ["", "7", "d", "-7d", "7 years", "999999999d", "2026-13-01", "yesterdays", "9" * 5_000]
)
def test_any_other_beginning_is_refused(text):
    with pytest.raises(ValueError, match="is no time: write 12h, 7d, 2w or a date"):
        read_since(text)


@pytest.mark.parametrize("text", ["", "7", "-1", "-1d", "1.5h", "7 fortnights", "7D", "٣d", "5201w", "9" * 5_000 + "d"])
def test_anything_else_is_refused_where_it_stands(text):
    table = {"llms": {}, "responses": [], "questions": {"expires": text}}

    with pytest.raises(ConfigError, match=r"questions.expires: expires is no duration: a duration is a whole number"):
        FlexChat.from_config(table)
