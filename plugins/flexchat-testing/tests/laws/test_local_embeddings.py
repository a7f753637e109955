"""Each law of a model that only embeds catches one that breaks it."""

import asyncio
import time
import unittest
import zlib

import pytest
from flexchat_sdk import Embeddings, ModelInfo, ModelNotFoundError, ProviderRequestError
from flexchat_testing import LocalEmbeddingsConformance
from flexchat_testing.laws.law import laws_of

WORDS = {"cat": 0, "kitten": 0, "revenue": 1}
MOST = 1000


class Bags:
    """A model of bags of words, just good enough."""

    name = "bags"
    models = (ModelInfo(id="bags-1", capabilities=frozenset({"embedding"})),)

    def vector(self, text, place, count):
        vector = [0.1] * 8
        for word in text[:MOST].casefold().replace(".", "").split():
            vector[WORDS.get(word, 2 + zlib.crc32(word.encode("utf-8", "replace")) % 6)] += 2 if word in WORDS else 0.3
        return vector

    async def embed(self, texts, model, *, purpose=None, dimensions=None, timeout_s=None):
        if model != "bags-1":
            raise ModelNotFoundError("only bags-1")
        if dimensions is not None:
            raise ProviderRequestError("8 numbers")
        await asyncio.sleep(0.05 if len(texts) > 100 else 0)
        vectors = tuple(self.vector(text, place, len(texts)) for place, text in enumerate(texts))
        return Embeddings(vectors=vectors, warnings=("cut",) if any(len(text) > MOST for text in texts) else ())

    async def generate_chat(self, messages, model, options):
        raise ProviderRequestError("no chat", kind="unsupported_feature")

    async def list_models(self):
        return self.models

    async def aclose(self):
        pass


class Good(LocalEmbeddingsConformance):
    model = "bags-1"
    bags = Bags

    def make_provider(self):
        return self.bags()


def by(**changes):
    return {"bags": type("Wrong", (Bags,), changes)}


async def chats(self, messages, model, options):
    return "hello"


async def blocks(self, texts, model, **rest):
    time.sleep(0.6 if len(texts) > 100 else 0)  # noqa: ASYNC251  what the law is about
    return await Bags.embed(self, texts, model, **rest)


async def silent(self, texts, model, **rest):
    return Embeddings(vectors=(await Bags.embed(self, texts, model, **rest)).vectors)


WRONG = {
    "test_vectors_keep_order_and_count": (
        by(vector=lambda self, text, place, count: [float(place), 1.0]),
        "in another order, these texts have another vector",
    ),
    "test_a_text_has_one_vector": (
        by(vector=lambda self, text, place, count: [float(count), 1.0]),
        "alone and among others",
    ),
    "test_nearness_is_meaning": (by(vector=lambda self, text, place, count: [1.0, 0.0]), "a paraphrase has cosine 1.0"),
    "test_any_text_has_a_vector": (by(vector=lambda self, text, place, count: [0.0, 0.0]), "has the vector [0.0, 0.0]"),
    "test_a_cut_is_told": (by(embed=silent), "were read without a warning"),
    "test_the_event_loop_stays_free": (by(embed=blocks), "holds the event loop"),
    "test_what_it_cannot_do_is_a_provider_error": (
        by(generate_chat=chats),
        "must raise ProviderRequestError, and returned",
    ),
    "test_the_model_is_listed": (by(models=()), "bags-1 is not listed"),
}
LAWS = [name for name, _ in laws_of(Good)]


@pytest.mark.parametrize("name", LAWS)
def test_a_right_one_keeps_every_law(name):
    """The one the wrong ones are made of."""
    getattr(Good(), name)()


@pytest.mark.parametrize("name", WRONG)
def test_a_law_catches_one_that_breaks_it(name):
    """The verdict says what is wrong."""
    flaws, words = WRONG[name]

    with pytest.raises(Exception) as caught:
        getattr(type("Wrong", (Good,), flaws)(), name)()

    assert not isinstance(caught.value, unittest.SkipTest)
    assert words in str(caught.value)


def test_every_law_is_shown_to_catch_something():
    """No law may be added without something that breaks it."""
    assert {*LAWS} - {"test_no_law_is_replaced"} == WRONG.keys()
