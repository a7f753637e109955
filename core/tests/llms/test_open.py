"""Settings marked secret are secrets, whatever they are called; opened services share what is known of a server."""

from types import SimpleNamespace

import attrs
from flexchat.config.model import LLMEntry
from flexchat.llms.open import Configured, open_llm, secret_values
from flexchat.services.endpoints import Endpoints


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


def opened(endpoints, **rest):
    """The endpoint of a service opened for a provider with these attributes."""
    provider = SimpleNamespace(name="p", tool_format=None, aclose=None, generate_chat=None, list_models=None, **rest)
    service = Configured(SimpleNamespace(create=lambda settings: provider), None)
    return open_llm("p", service, LLMEntry(provider="p"), endpoints).endpoint


def test_opened_services_share_what_they_are_given():
    """open_llm takes the endpoints of one FlexChat, and makes fresh ones without them."""
    endpoints = Endpoints()

    shared = [opened(endpoints, endpoint="https://one.example") for _ in range(2)]
    alone = opened(None, endpoint="https://one.example")

    assert shared[0] is shared[1] is not alone


def test_a_service_without_an_endpoint_has_its_own():
    """Absent, None, or a stranger's nonsense."""
    endpoints = Endpoints()

    found = [opened(endpoints, **rest) for rest in ({}, {}, {"endpoint": None}, {"endpoint": []})]

    assert len(set(found)) == 4
