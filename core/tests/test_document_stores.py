"""From the entries of stores to open stores: what each is handed, and what is told where that cannot be had."""

import attrs
import pytest
from flexchat.config.reading import read_config
from flexchat.document_stores import StoreOpener
from flexchat.llms.llm import Llms, LocalModels
from flexchat.llms.open import read_entries
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat.store import DocumentStoreType, RerankerType
from flexchat_sdk import ProviderType


@attrs.frozen(kw_only=True)
class Settings:
    colour: str = "green"


class Chatting:
    """A provider without embeddings."""

    def __init__(self, config=None):
        pass

    name = "chatting"


class Embedding(Chatting):
    name = "embedding"

    async def embed(self, texts, model, **rest):
        raise NotImplementedError


class Local(Embedding):
    name = "local"


@attrs.frozen
class Store:
    settings: Settings
    context: object

    def __attrs_post_init__(self):
        if self.settings.colour == "none":
            raise ValueError("none is no colour for a shelf")


class Reranker:
    pass


def provider(cls, **rest):
    return ProviderType(name=cls.name, config_class=Settings, create=cls, tool_formats={}, summary="x", **rest)


class Plugin:
    def __init__(self, *, local):
        self.local = local

    @hookimpl
    def flexchat_register_providers(self):
        yield provider(Chatting)
        yield provider(Embedding)
        if self.local:
            yield provider(Local, local_embeddings="tiny")

    @hookimpl
    def flexchat_register_document_stores(self):
        yield DocumentStoreType(name="shelf", config_class=Settings, create=Store, summary="x")

    @hookimpl
    def flexchat_register_rerankers(self):
        yield RerankerType(name="careful", create=Reranker, summary="x")


LLMS = """
[[responses]]
llm = "talk"
model = "any"
[llms.talk]
provider = "chatting"
[llms.vectors]
provider = "embedding"
default_model = "large"
[llms.bare]
provider = "embedding"
"""


@pytest.fixture
def opened(tmp_path):
    """Open the stores of a configuration; returns them, the opener, and what is wrong."""

    def opened(text, *, local=True):
        file = tmp_path / "config.toml"
        file.write_text(LLMS + text, encoding="utf-8")
        reading, host = read_config(file), PluginHost(strict=True)
        host.register(Plugin(local=local), "own")
        read_entries(reading, "llms", host.providers)
        stores = read_entries(reading, "stores", host.document_stores)
        config = reading.finish()
        llms = Llms.from_providers({"talk": Chatting(), "vectors": Embedding(), "bare": Embedding()}, config.llms)
        opener = StoreOpener(reading, config, host, llms, LocalModels(host.providers.by_name.values()))
        return opener.open(stores), opener, [(p.path, p.text) for p in reading.problems]

    return opened


SHELF = '[stores.docs]\nprovider = "shelf"\n'


def test_a_store_is_handed_its_settings_its_name_and_the_folder_of_the_config(opened, tmp_path):
    """Paths in its entry are meant from there."""
    stores, _, problems = opened(SHELF + 'colour = "red"\n')

    assert not problems
    assert stores["docs"].settings == Settings(colour="red")
    assert (stores["docs"].context.name, stores["docs"].context.folder) == ("docs", tmp_path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (SHELF, "local/tiny"),
        (SHELF + 'embedding = { llm = "vectors" }\n', "embedding/large"),
        (SHELF + 'embedding = { llm = "vectors", model = "other" }\n', "embedding/other"),
        (SHELF + 'embedding = { llm = "local" }\n', "local/tiny"),
        (SHELF + 'embedding = { llm = "local", model = "own" }\n', "local/own"),
        (SHELF + '[embedding]\nllm = "vectors"\n', "embedding/large"),
        (SHELF + 'embedding = { llm = "bare", model = "x" }\n[embedding]\nllm = "vectors"\n', "embedding/x"),
    ],
)
def test_the_embedder_is_the_entrys_else_the_configs_else_a_local_one(opened, text, name):
    """By the name of an llm, or of a provider that brings a model of its own."""
    stores, _, problems = opened(text)

    assert not problems
    assert stores["docs"].context.embedder.name == name


def test_without_any_embedder_a_store_has_none(opened):
    """It then searches by words."""
    stores, opener, problems = opened(SHELF, local=False)

    assert not problems
    assert stores["docs"].context.embedder is None
    assert stores["docs"].context.reranker is None
    assert opener.held == []


def test_stores_share_a_local_model_and_it_is_closed_with_them(opened):
    """It is opened once, however many stores there are, and a question is asked once."""
    stores, opener, _ = opened(SHELF + '[stores.more]\nprovider = "shelf"\nrerank = "careful"\n')

    assert len(stores) == 2
    assert [type(thing) for thing in opener.held] == [Reranker]
    assert stores["docs"].context.embedder is stores["more"].context.embedder
    assert isinstance(stores["more"].context.reranker, Reranker)


@pytest.mark.parametrize(
    ("entry", "place", "words"),
    [
        (
            'embedding = { llm = "vector" }',
            "stores.docs.embedding.llm",
            "(did you mean 'vectors'?); there is talk",
        ),
        (
            'embedding = { llm = "talk" }',
            "stores.docs.embedding.llm",
            "talk (provider chatting) cannot make embeddings",
        ),
        ('embedding = { llm = "bare" }', "stores.docs.embedding", "or 'default_model' in llms.bare"),
        ('rerank = "carefull"', "stores.docs.rerank", "(did you mean 'careful'?)"),
        ('[embedding]\nllm = "vektors"', "embedding.llm", "did you mean 'vectors'?"),
    ],
)
def test_what_cannot_be_had_is_a_problem_of_the_config(opened, entry, place, words):
    """With its place and what to write instead."""
    _, _, problems = opened(f"{SHELF}{entry}\n")

    assert [path for path, _ in problems] == [place]
    assert words in problems[0][1]


def test_a_store_that_cannot_be_made_is_a_problem_of_its_entry(opened):
    """And no traceback."""
    stores, _, problems = opened(SHELF + 'colour = "none"\n')

    assert stores == {}
    assert problems == [("stores.docs", "none is no colour for a shelf")]
