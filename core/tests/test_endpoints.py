"""All who ask one server share what is known of its health; others do not."""

from flexchat.endpoints import Endpoints


def test_those_at_one_origin_share_it():
    """Two llms entries for one server, one for another."""
    endpoints = Endpoints()

    a, b, c = (endpoints.of(f"https://{host}.example") for host in ("one", "one", "two"))

    assert a is b
    assert a is not c


def test_an_unshared_endpoint_is_new_each_time():
    """Whatever its name."""
    endpoints = Endpoints()

    assert len({endpoints.unshared("p"), endpoints.unshared("p"), endpoints.of("p")}) == 3
