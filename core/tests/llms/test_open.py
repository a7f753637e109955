"""Settings marked secret are secrets, whatever they are called; opened services share what is known of a server."""

import re
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest
from flexchat import FlexChat
from flexchat.assembly import installed_plugins
from flexchat.config.keys import keys_folder
from flexchat.config.model import LLMEntry
from flexchat.domain.keys import secret_key
from flexchat.endpoints import Endpoints
from flexchat.llms.open import Configured, open_llm, secret_values, with_usual_key


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


@attrs.frozen(kw_only=True)
class Keyed:
    """Settings of a service whose key usually is in the environment."""

    base_url: str = "https://api.acme.example/v1"
    key: str | None = secret_key("Key.", variables={"api.acme.example": ("ACME_KEY", "ACME_TOKEN")})
    token: str | None = secret_key("Token.", variables={"*.eu.acme.example": ("ACME_TOKEN",)})


@pytest.mark.parametrize(
    ("settings", "environment", "found"),
    [
        ({}, {"ACME_KEY": "one", "ACME_TOKEN": "two"}, ("one", None)),
        ({}, {"ACME_KEY": " \n", "ACME_TOKEN": "two\n"}, ("two", None)),
        ({}, {}, (None, None)),
        ({"key": "mine"}, {"ACME_KEY": "one"}, ("mine", None)),
        ({"token": "mine"}, {"ACME_KEY": "one"}, (None, "mine")),
        ({"base_url": "https://a.eu.acme.example"}, {"ACME_KEY": "one", "ACME_TOKEN": "two"}, (None, "two")),
        ({"base_url": "http://api.acme.example"}, {"ACME_KEY": "one"}, (None, None)),
        ({"base_url": "https://api.acme.example.evil.example"}, {"ACME_KEY": "one"}, (None, None)),
        ({"base_url": "https://api.acme.example@evil.example"}, {"ACME_KEY": "one"}, (None, None)),
        ({"base_url": "http://127.0.0.1:8000"}, {"ACME_KEY": "one"}, (None, None)),
    ],
)
def test_a_key_of_the_environment_goes_only_to_its_host(settings, environment, found, monkeypatch):
    """The first variable that is set, if the settings hold no secret; never over plain HTTP."""
    for name in ("ACME_KEY", "ACME_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    keyed = with_usual_key(Keyed(**settings))

    assert (keyed.key, keyed.token) == found


def test_a_stored_key_comes_after_the_environment_and_goes_only_to_its_host(monkeypatch):
    """And is masked from then on."""
    for name in ("ACME_KEY", "ACME_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    keys_folder().mkdir(parents=True)
    (keys_folder() / "ACME_KEY").touch(0o600)
    (keys_folder() / "ACME_KEY").write_text("stored-secret")

    assert with_usual_key(Keyed()).key == "stored-secret"
    assert with_usual_key(Keyed(base_url="https://evil.example")).key is None
    assert with_usual_key(Keyed(key="mine")).key == "mine"
    assert "stored-secret" in secret_values([])
    monkeypatch.setenv("ACME_TOKEN", "environment")
    assert with_usual_key(Keyed()).key == "environment"


def test_a_variable_that_holds_no_key_is_named(monkeypatch):
    """Without its value."""
    monkeypatch.setenv("ACME_KEY", "se\ncret")

    with pytest.raises(ValueError, match=r"^environment variable ACME_KEY: key contains a line break") as caught:
        with_usual_key(Keyed())
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "variable", "field"),
    [
        ("openai", "OPENAI_API_KEY", "api_key"),
        ("anthropic", "ANTHROPIC_API_KEY", "api_key"),
        ("gemini", "GEMINI_API_KEY", "api_key"),
        ("gemini", "GOOGLE_API_KEY", "api_key"),
    ],
)
def test_the_usual_variables_of_our_providers(provider, variable, field, monkeypatch):
    """As a config and as from_model use them."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "from-the-environment")
    made = []
    host = installed_plugins()
    kind = host.providers.by_name[provider]
    create = lambda settings: made.append(settings) or kind.create(settings)  # noqa: E731
    host.providers.by_name[provider] = attrs.evolve(kind, create=create)
    config = {"llms": {"it": {"provider": provider}}, "responses": [{"llm": "it", "model": "m"}]}

    FlexChat.from_model(f"{provider}/m", plugins=host)
    FlexChat.from_config(config, plugins=host)

    assert [getattr(settings, field) for settings in made] == ["from-the-environment"] * 2


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


def test_the_page_lists_the_variables():
    """docs/config.md, and every field of our providers."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "config.md").read_text()
    kinds = installed_plugins().providers.by_name
    for kind in ("openai", "anthropic", "gemini", "ollama"):
        for field in attrs.fields(kinds[kind].config_class):
            for host, names in field.metadata.get("variables", {}).items():
                row = rf"\| `{kind}`.* \| `{re.escape(host)}` \| {', '.join(f'`{name}`' for name in names)} \|"
                assert re.search(row, page), (kind, host)
