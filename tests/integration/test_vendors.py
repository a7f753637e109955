"""The records of the vendors' plugins: their names, their secrets, and their price tables."""

import attrs
import flexchat_anthropic.models
import flexchat_anthropic.plugin
import flexchat_gemini.models
import flexchat_gemini.plugin
import flexchat_ollama.plugin
import flexchat_openai.models
import flexchat_openai.plugin
import pytest

PRICED = (
    pytest.param(flexchat_anthropic, "claude-opus-4-5", id="anthropic"),
    pytest.param(flexchat_gemini, "gemini-3.5-flash", id="gemini"),
    pytest.param(flexchat_openai, "gpt-5.2", id="openai"),
)


@pytest.mark.parametrize(
    ("package", "formats", "dialects"),
    [
        (flexchat_anthropic, ["anthropic"], ["anthropic", "anthropic.strict"]),
        (flexchat_gemini, ["gemini", "gemini.parameters"], ["gemini", "gemini.parameters"]),
        (flexchat_ollama, ["ollama"], ["ollama"]),
        (flexchat_openai, ["openai", "openai.responses"], ["openai", "openai.strict"]),
    ],
)
async def test_a_plugin_registers_its_provider(package, formats, dialects):
    """One kind of service, whose tool formats and schema dialects have its name."""
    (kind,) = package.plugin.flexchat_register_providers()
    provider = kind.create(kind.config_class(base_url="https://h.example/v1"))

    assert package.__name__ == f"flexchat_{kind.name}"
    assert [sorted(kind.tool_formats), sorted(kind.schema_dialects)] == [formats, dialects]
    assert all(name == dialect.name for name, dialect in kind.schema_dialects.items())
    assert provider.tool_format("any") == kind.name
    await provider.aclose()


@pytest.mark.parametrize("package", [flexchat_anthropic, flexchat_gemini, flexchat_ollama, flexchat_openai])
def test_secrets_do_not_show_and_every_setting_is_described(package):
    """Secrets lose the line break of their file; the descriptions are what editors offer."""
    (kind,) = package.plugin.flexchat_register_providers()
    fields = attrs.fields(kind.config_class)
    secrets = [field.name for field in fields if field.metadata.get("secret") and field.name != "extra_headers"]
    config = kind.config_class(extra_headers={"x": "topsecret"}, **dict.fromkeys(secrets, " topsecret\n"))

    assert "api_key" in secrets
    assert [getattr(config, name) for name in secrets] == ["topsecret"] * len(secrets)
    assert "secret" not in repr(config)
    assert all(field.metadata["help"] for field in fields)


@pytest.mark.parametrize(("package", "model"), PRICED)
def test_every_row_is_a_price(package, model):
    """Cached input costs at most what input costs; a long request at least what a short one does."""
    table = package.models.table()
    assert len([*table]) > 10
    for name in table:
        row = package.models.price_of(name)
        assert row.price.source.startswith(f"{package.__name__.replace('_', '-')}, 20")
        assert row.price.cached_input is None or row.price.cached_input <= row.price.input
        assert all(price.input >= row.price.input for _, price in row.above)


@pytest.mark.parametrize(("package", "model"), PRICED)
def test_an_unknown_model_is_unpriced(package, model):
    """Also one whose name begins like a known one's."""
    price_of = package.models.price_of
    assert price_of(f"{model}-2025-12-11") == price_of(model) is not None
    assert [price_of(name) for name in ("", "no-such-model", f"{model}-gold")] == [None] * 3


@pytest.mark.parametrize(("package", "model"), PRICED)
@pytest.mark.parametrize("address", [None, "http://127.0.0.1:8000", "https://gateway.example.org/v1"])
async def test_other_servers_have_other_prices(package, model, address):
    """Whatever they call their models."""
    (kind,) = package.plugin.flexchat_register_providers()
    provider = kind.create(kind.config_class(**({} if address is None else {"base_url": address})))

    assert provider.price_of(model) == (package.models.price_of(model) if address is None else None)
    await provider.aclose()
