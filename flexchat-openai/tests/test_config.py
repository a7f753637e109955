"""An llms entry is checked when it is read, and its key is never shown."""

from typing import Any

import pytest
from flexchat_openai.config import OpenAIConfig


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"base_url": "api.openai.com"}, "base_url must start with http"),
        ({"base_url": "user:secret@host"}, "base_url"),
        ({"timeout_s": 0}, "timeout_s must be more than 0"),
        ({"idle_timeout_s": float("inf")}, "idle_timeout_s"),
        ({"first_byte_timeout_s": float("nan")}, "first_byte_timeout_s"),
        ({"api_key": "secret–dash"}, "api_key contains"),
        ({"api_key": "sec\nret"}, "api_key contains"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], text: str) -> None:
    """With the name of the setting, and no key."""
    with pytest.raises(ValueError, match=text) as caught:
        OpenAIConfig(**settings)

    assert "sec" not in str(caught.value).replace("seconds", "")


def test_a_key_loses_the_line_break_of_its_file() -> None:
    """Blanks around a key are not part of it; nothing but blanks is no key."""
    assert OpenAIConfig(api_key=" k\n").api_key == "k"
    assert OpenAIConfig(api_key="\n").api_key is None
