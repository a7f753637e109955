"""Texts to vectors, through the app."""

import pytest
from flexchat import ChatRequestError, Embeddings, FlexChat, SyncFlexChat
from flexchat.host import UnknownLLMError
from flexchat_sdk import ProviderRequestError
from flexchat_testing.scripted import ScriptedProvider


class Embedder(ScriptedProvider):
    """Says how long each text is."""

    def __init__(self):
        super().__init__([])
        self.asked = []

    async def embed(self, texts, model, *, purpose=None, dimensions=None, timeout_s=None):
        self.asked.append((model, purpose, dimensions))
        return Embeddings(vectors=tuple([float(len(text))] for text in texts), model=model)


def chat(**changes):
    config = {
        "llms": {"bot": {"provider": "scripted", "default_model": "m"}, "vectors": {"provider": "scripted"}},
        "responses": [{"llm": "bot"}],
        **changes,
    }
    embedder = Embedder()
    return FlexChat.from_config(config, providers={"bot": ScriptedProvider([]), "vectors": embedder}), embedder


async def test_the_config_says_who_makes_them():
    """[embedding] names service and model; the vectors come in the order of the texts."""
    made, embedder = chat(embedding={"llm": "vectors", "model": "e5"})

    found = await made.embed(["a", "bcd"], purpose="query", dimensions=1)

    assert [*found.vectors] == [[1.0], [3.0]]
    assert embedder.asked == [("e5", "query", 1)]


async def test_the_caller_may_say_it():
    """llm and model go before the config."""
    made, embedder = chat(embedding={"llm": "bot"})

    await made.embed(["a"], llm="vectors", model="other")

    assert embedder.asked == [("other", None, None)]


async def test_no_texts_make_no_vectors_and_no_request():
    """Nothing to ask."""
    made, embedder = chat(embedding={"llm": "vectors", "model": "e5"})

    assert (await made.embed([])).vectors == ()
    assert embedder.asked == []


@pytest.mark.parametrize(
    ("texts", "rest", "error", "words"),
    [
        ("a text", {"llm": "vectors", "model": "m"}, ChatRequestError, "list of texts"),
        (["a", " "], {"llm": "vectors", "model": "m"}, ChatRequestError, "empty"),
        ([3], {"llm": "vectors", "model": "m"}, ChatRequestError, "list of texts"),
        (["a"], {}, ChatRequestError, "which service"),
        (["a"], {"llm": "vectors"}, ChatRequestError, "which model"),
        (["a"], {"llm": "vektors"}, UnknownLLMError, "vektors"),
        (["a"], {"llm": "bot"}, ProviderRequestError, "cannot make embeddings"),
    ],
)
async def test_what_cannot_be_done_is_said(texts, rest, error, words):
    """A sentence, and no request."""
    made, _ = chat()

    with pytest.raises(error, match=words):
        await made.embed(texts, **rest)


def test_the_same_without_an_event_loop():
    """SyncFlexChat."""
    made, _ = chat(embedding={"llm": "vectors", "model": "e5"})
    with SyncFlexChat(made) as sync:
        assert [*sync.embed(["abc"]).vectors] == [[3.0]]
