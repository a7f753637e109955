"""Services at one server share what is known of its health; others do not."""

from types import SimpleNamespace

from flexchat.services.build import Service, open_provider
from flexchat.services.endpoints import Endpoints


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
    """open_provider takes the endpoints of one FlexChat, and makes fresh ones without them."""
    endpoints = Endpoints()
    service = Service(SimpleNamespace(create=lambda settings: provider(endpoint="https://one.example")), None)

    shared = [open_provider(service, retries=0, retry_delay_ms=1, endpoints=endpoints)._health for _ in range(2)]
    alone = open_provider(service, retries=0, retry_delay_ms=1)._health

    assert shared[0] is shared[1] is not alone
