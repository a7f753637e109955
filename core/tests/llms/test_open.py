"""Settings marked secret are secrets, whatever they are called."""

import attrs
from flexchat.llms.open import Configured, secret_values


@attrs.frozen
class Settings:
    """Settings of some service."""

    password: str = attrs.field(metadata={"secret": True})
    url: str = "https://example.org"


def test_secret_settings_are_known_by_their_mark():
    """Short ones would blot out ordinary words."""
    services = [Configured(None, Settings("long-enough")), Configured(None, Settings("none"))]

    found = secret_values(services)

    assert "long-enough" in found
    assert not {"none", "https://example.org"} & found
