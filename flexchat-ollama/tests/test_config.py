"""An llms entry is checked when it is read; a server's address is read in every form in which people write it."""

from typing import Any

import pytest
from flexchat_ollama.config import OllamaConfig, is_cloud
from flexchat_ollama.provider import OllamaProvider
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", "http://127.0.0.1:11434"),
        ("localhost", "http://localhost:11434"),
        ("box:8080", "http://box:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("http://0.0.0.0:99", "http://127.0.0.1:99"),
        ("192.168.1.5", "http://192.168.1.5:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::1]:5", "http://[::1]:5"),
        ("[::]:5", "http://[::1]:5"),
        ("http://[fe80::1]", "http://[fe80::1]"),
        ("http://box", "http://box"),
        ("https://ollama.com/", "https://ollama.com"),
        ("ollama.com", "https://ollama.com"),
        ("https://ollama.com/api", "https://ollama.com"),
        ("http://box:1/ollama/", "http://box:1/ollama"),
        (" box \n", "http://box:11434"),
    ],
)
def test_an_address_is_read_as_ollama_reads_ollama_host(written: str, meant: str) -> None:
    """The default port belongs to addresses without a scheme; an address to listen on is the loopback it includes."""
    assert OllamaConfig(base_url=written).base_url == meant
    assert OllamaConfig(base_url=meant).base_url == meant


async def test_the_endpoint_is_scheme_host_and_port() -> None:
    """Services with one endpoint share what is known of its health, whatever path leads there."""
    for written, endpoint in [("[::1]:5", "http://[::1]:5"), ("http://box:1/ollama", "http://box:1")]:
        provider = OllamaProvider(OllamaConfig(base_url=written))
        assert provider.endpoint == endpoint
        await provider.aclose()


def test_only_ollamas_own_host_is_the_cloud() -> None:
    """A name that merely contains it is not."""
    assert is_cloud("https://ollama.com")
    assert not is_cloud("https://ollama.com.example")
    assert not is_cloud("http://127.0.0.1:11434")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"base_url": "ftp://box"}, "base_url must start with http"),
        ({"base_url": "http://"}, "base_url is not the address"),
        ({"base_url": "box:abc"}, "base_url is not the address"),
        ({"base_url": "box:99999"}, "base_url is not the address"),
        ({"base_url": "a b"}, "base_url is not the address"),
        ({"base_url": "[::1"}, "base_url is not the address"),
        ({"base_url": "http://me:secret@box"}, "base_url holds a user or a password"),
        ({"num_ctx": 0}, "num_ctx must be at least 1"),
        ({"max_num_ctx": -1}, "max_num_ctx must be at least 1"),
        ({"keep_alive": "5"}, "keep_alive must be seconds"),
        ({"keep_alive": "five minutes"}, "keep_alive must be seconds"),
        ({"keep_alive": float("nan")}, "keep_alive must be seconds"),
        ({"first_byte_timeout_s": 0}, "first_byte_timeout_s must be more than 0"),
        ({"timeout_s": float("inf")}, "timeout_s"),
        ({"api_key": "sec\nret"}, "api_key contains"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], text: str) -> None:
    """With the name of the setting, and no secret."""
    with pytest.raises(ValueError, match=text) as caught:
        OllamaConfig(**settings)

    assert "sec" not in str(caught.value).replace("seconds", "")


@pytest.mark.parametrize("value", [0, -1, 2.5, "5m", "1h30m", "-1m", "1.5h", "300ms", None])
def test_keep_alive_is_a_number_or_a_duration_of_go(value: Any) -> None:
    """What the server can read, it is sent."""
    assert OllamaConfig(keep_alive=value).keep_alive == value


@given(st.text())
def test_any_address_is_read_or_refused(text: str) -> None:
    """Law: what stands in base_url is a server's address afterwards, or a ValueError that names it."""
    try:
        address = OllamaConfig(base_url=text).base_url
    except ValueError as error:
        address = str(error)

    if not address.startswith("base_url"):
        assert address.startswith(("http://", "https://"))
        assert OllamaConfig(base_url=address).base_url == address
