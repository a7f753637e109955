"""An llms entry is checked when it is read, and its key is never shown."""

from typing import Any

import pytest
from flexchat_gemini.config import GeminiConfig


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"base_url": "generativelanguage.googleapis.com"}, "base_url must start with http"),
        ({"base_url": "https://h.example/?key=secret"}, "keys do not belong into an address"),
        ({"timeout_s": 0}, "timeout_s must be more than 0"),
        ({"api_key": "secret–dash"}, "api_key contains"),
        ({"access_token": "sec\nret"}, "access_token contains"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], text: str) -> None:
    """With the name of the setting, and no key."""
    with pytest.raises(ValueError, match=text) as caught:
        GeminiConfig(**settings)

    assert "sec" not in str(caught.value).replace("seconds", "")


def test_a_path_may_be_written_with_slashes() -> None:
    """Those around it are not part of it."""
    assert GeminiConfig(path="/projects/p/").path == "projects/p"
