"""An llms entry is checked when it is read, and its key is never shown."""

from typing import Any

import pytest
from flexchat_anthropic.config import AnthropicConfig


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"base_url": "api.anthropic.com"}, "base_url must start with http"),
        ({"api_version": "v1"}, "api_version is a date"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"timeout_s": 0}, "timeout_s must be more than 0"),
        ({"api_key": "secret–dash"}, "api_key contains"),
        ({"auth_token": "sec\nret"}, "auth_token contains"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], text: str) -> None:
    """With the name of the setting, and no key."""
    with pytest.raises(ValueError, match=text) as caught:
        AnthropicConfig(**settings)

    assert "sec" not in str(caught.value).replace("seconds", "")
