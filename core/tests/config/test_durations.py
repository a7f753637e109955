"""Durations in a config: a whole number and a unit."""

import pytest
from flexchat import FlexChat
from flexchat.config.model import duration_s
from flexchat.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("0s", 0), ("90s", 90), ("2h", 7_200), ("7d", 604_800), ("5200w", 3_144_960_000)]
)
def test_a_duration_has_a_unit(text, seconds):
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "-1", "-1d", "1.5h", "7 fortnights", "7D", "٣d", "5201w", "9" * 5_000 + "d"])
def test_anything_else_is_refused_where_it_stands(text):
    table = {"llms": {}, "responses": [], "questions": {"expires": text}}

    with pytest.raises(ConfigError, match=r"questions.expires: expires is no duration: a duration is a whole number"):
        FlexChat.from_config(table)
