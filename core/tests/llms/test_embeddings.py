"""Texts to vectors, by a service of the config or a provider that brings its own model."""

import attrs
import pytest
from flexchat import FlexChat
from flexchat.domain import Embeddings
from flexchat.errors import UnknownLLMError
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat_sdk import ProviderType

CONFIG = {
    "llms": {"bot": {"provider": "scripted", "default_model": "m"}},
    "responses": [{"llm": "bot"}],
}


@attrs.frozen
class Settings:
    pass


class Local:
    name = "local"
    opened = []  # noqa: RUF012

    def __init__(self, settings):
        self.closed = False
        self.opened.append(self)

    async def embed(self, texts, model, *, purpose=None, dimensions=None, timeout_s=None):
        return Embeddings(vectors=tuple((float(len(text)),) for text in texts), model=model)

    async def aclose(self):
        self.closed = True


class Plugin:
    @hookimpl
    def flexchat_register_providers(self):
        yield ProviderType(
            name="local", config_class=Settings, create=Local, tool_formats={}, local_embeddings="tiny", summary="x"
        )


@pytest.fixture
def host():
    Local.opened.clear()
    host = PluginHost()
    host.load_installed()
    host.register(Plugin(), "own")
    return host


@pytest.mark.parametrize(
    ("config", "asked", "model"),
    [
        (CONFIG, {"llm": "local"}, "tiny"),
        (CONFIG, {"llm": "local", "model": "other"}, "other"),
        ({**CONFIG, "embedding": {"llm": "local"}}, {}, "tiny"),
        ({**CONFIG, "embedding": {"llm": "local", "model": "small"}}, {}, "small"),
    ],
)
async def test_a_provider_that_brings_its_own_model_needs_no_entry(host, config, asked, model):
    """It is opened once, at the first use, and closed with the rest."""
    async with FlexChat.from_config(config, plugins=host) as chat:
        assert len(Local.opened) == ("embedding" in config)
        made = await chat.embed(["abc"], **asked)
        await chat.embed(["abc"], **asked)

    assert (made.vectors, made.model) == (((3.0,),), model)
    assert [local.closed for local in Local.opened] == [True]


async def test_from_model_knows_them_too(host):
    async with FlexChat.from_model("scripted/m", plugins=host) as chat:
        assert (await chat.embed(["abc"], llm="local")).vectors == ((3.0,),)


async def test_who_is_not_known_is_told_who_is(host):
    async with FlexChat.from_config(CONFIG, plugins=host) as chat:
        with pytest.raises(UnknownLLMError, match=r"bot, (?:\w+, )*local"):
            await chat.embed(["abc"], llm="lokal")
    assert Local.opened == []
