"""Services at one server share what is known of its health; others do not."""

from types import SimpleNamespace

from flexchat.config.model import LLMEntry
from flexchat.llms.endpoints import Endpoints
from flexchat.llms.open import Configured, open_llm


def provider(**rest):
    return SimpleNamespace(name="p", tool_format=None, aclose=None, generate_chat=None, list_models=None, **rest)


def test_services_at_one_endpoint_share_it():
    """Two llms entries for one server, one for another."""
    endpoints = Endpoints()

    a, b, c = (endpoints.of(provider(endpoint=f"https://{host}.example")) for host in ("one", "one", "two"))

    assert a is b
    assert a is not c


def test_a_service_without_an_endpoint_has_its_own():
    """Absent, None, or a stranger's nonsense."""
    endpoints = Endpoints()

    found = [endpoints.of(provider(**rest)) for rest in ({}, {}, {"endpoint": None}, {"endpoint": []})]

    assert len(set(found)) == 4


def test_opened_services_share_what_they_are_given():
    """open_llm takes the endpoints of one FlexChat, and makes fresh ones without them."""
    endpoints = Endpoints()
    service = Configured(SimpleNamespace(create=lambda settings: provider(endpoint="https://one.example")), None)

    shared = [open_llm(name, service, LLMEntry(provider="p"), endpoints).endpoint for name in ("a", "b")]
    alone = open_llm("c", service, LLMEntry(provider="p")).endpoint

    assert shared[0] is shared[1] is not alone
