"""Each law of a handler, an implementation type and a retriever catches one that breaks it."""

import sys
import time
import unittest

import attrs
import pytest
from flexchat.plugin import Implementation, ImplementationType, ToolDefinition, ToolHandler
from flexchat.store import Collection, Document, RetrievalHits, holds, read_filter
from flexchat_testing import HandlerConformance, ImplementationConformance, RetrieverConformance
from flexchat_testing.laws.law import laws_of

LIGHT, HEAVY = "flexchat.plugin", "flexchat_sdk.http.client"


class GoodHandler(HandlerConformance):
    supports = frozenset({"refuses"})
    plugin = LIGHT
    good = ({"text": "a b"}, {"text": "c", "list": [1]})
    bad = ({}, {"text": 5})
    tool = ToolDefinition(
        name="count",
        description="Count words",
        parameters={"type": "object", "properties": {"text": {"type": "string"}}},
        implementation=Implementation(type="builtin"),
    )

    @staticmethod
    def count(params, context):
        if not isinstance(params.get("text"), str):
            raise ValueError("'text' must be a text")
        return {"words": len(params["text"].split())}

    handler = ToolHandler(kind="builtin", name="count", call=count)


def handler(call, **rest):
    return {"handler": ToolHandler(kind="builtin", name="count", call=call), **rest}


async def blocks(params, context):
    time.sleep(0.25)  # noqa: ASYNC251  what the law is about


def sleeps(params, context):
    time.sleep(0.3)


def changes(params, context):
    params.setdefault("list", []).append(2)


def refuses_with(error):
    def call(params, context):
        raise error

    return call


HANDLERS = {
    "test_it_is_a_handler": (handler(lambda params: 1), "call must take"),
    "test_its_answer_is_json": (handler(lambda params, context: {"made": object()}), "must be JSON data"),
    "test_its_errors_are_for_the_model": (handler(refuses_with(KeyError("text"))), "raised KeyError"),
    "test_it_answers_in_time": (handler(sleeps, deadline_s=0.1), "took longer than 0.1 s"),
    "test_it_leaves_the_loop_free": (handler(blocks), "held the event loop"),
    "test_it_leaves_its_arguments_alone": (handler(changes), "changed its arguments"),
    "test_its_good_arguments_fit_its_tool": ({"good": ({"text": 5},)}, "the schema of count refuses"),
    "test_its_module_is_light": ({"plugin": HEAVY}, "imports aiohttp, httpx"),
}


@attrs.frozen(kw_only=True)
class Settings:
    text: str
    times: int = 1
    extra: dict = attrs.field(factory=dict)

    def __attrs_post_init__(self):
        if self.times < 0:
            raise ValueError("times must be 0 or more")


async def repeat(settings, params, context):
    if "$" in settings.text:
        raise ValueError("a $ cannot be repeated: leave it out")
    return {"text": [settings.text] * settings.times}


def no_question(settings, tool, handlers):
    return "text must not end with ?" if settings.text.endswith("?") else None


class GoodImplementation(ImplementationConformance):
    supports = frozenset({"checks", "refuses"})
    plugin = LIGHT
    settings = ({"text": "a"}, {"text": "b", "times": 2})
    wrong_settings = ({}, {"text": "a", "times": "2"}, {"text": "why?"})
    failing = ({"text": "$"},)
    implementation = ImplementationType(
        name="repeat", settings_class=Settings, run=repeat, check=no_question, summary="Says it again."
    )


def implementation(**changed):
    return {"implementation": attrs.evolve(GoodImplementation.implementation, **changed)}


async def gives_itself_away(settings, params, context):
    settings.extra["said"] = 1
    return settings.extra


async def no_json(settings, params, context):
    return {1, object()}


async def blocking_run(settings, params, context):
    time.sleep(0.25)  # noqa: ASYNC251  what the law is about


async def slow_run(settings, params, context):
    import asyncio

    await asyncio.sleep(0.3)


async def silent_run(settings, params, context):
    raise RuntimeError


def breaking_check(settings, tool, handlers):
    return None if settings.extra["known"] else "unknown"


IMPLEMENTATIONS = {
    "test_it_is_an_implementation_type": (implementation(run=lambda *given: None), "run must be an async def"),
    "test_right_settings_are_taken": ({"settings": ({"txt": "a"},)}, "are refused"),
    "test_wrong_settings_are_refused_when_they_are_loaded": (implementation(check=None), "are taken"),
    "test_strange_settings_are_read_or_refused": (implementation(check=breaking_check), "raised KeyError"),
    "test_its_answer_is_json": (implementation(run=no_json), "must be JSON data"),
    "test_its_errors_are_for_the_model": (implementation(run=silent_run), "without a text"),
    "test_it_leaves_its_arguments_alone": (implementation(run=gives_itself_away), "return a copy"),
    "test_it_answers_in_time": ({**implementation(run=slow_run), "deadline_s": 0.1}, "took longer"),
    "test_it_leaves_the_loop_free": (implementation(run=blocking_run), "held the event loop"),
    "test_its_module_is_light": ({"plugin": HEAVY}, "imports aiohttp, httpx"),
}

DOCUMENTS = tuple(
    Document(text=f"water {i}", collection="a" if i % 2 else "b", metadata={"n": i} if i < 5 else {}) for i in range(6)
)


class Store:
    """A right store: documents that begin like the question, numbered ones first."""

    documents = DOCUMENTS

    async def query(self, text, *, collection, top_k, where=None):
        condition = read_filter(where)
        fit = [d for d in self.documents if collection in (None, d.collection) and holds(condition, d.metadata)]
        return self.hits([d for d in fit if text in d.text][:top_k])

    async def collections(self):
        names = sorted({d.collection for d in self.documents})
        return [Collection(name=name, documents=sum(d.collection == name for d in self.documents)) for name in names]

    def hits(self, found):
        return RetrievalHits(documents=tuple(found), distances=tuple(i / 10 for i in range(len(found))))

    async def aclose(self):
        pass


class Empty(Store):
    documents = ()


class GoodRetriever(RetrieverConformance):
    supports = frozenset({"collections", "sorted_distances"})
    plugin = LIGHT
    question = "water"
    collection = "a"
    store, empty_store = Store, Empty

    def make_retriever(self):
        return self.store()

    def make_empty(self):
        return self.empty_store()


class NoNumbers(Store):
    def hits(self, found):
        return RetrievalHits(documents=tuple(found), distances=(float("nan"),) * len(found))


class WorstFirst(Store):
    def hits(self, found):
        return RetrievalHits(documents=tuple(found), distances=tuple(1 / (i + 1) for i in range(len(found))))


class TooMany(Store):
    async def query(self, text, *, collection, top_k, where=None):
        return await super().query(text, collection=collection, top_k=top_k + 1, where=where)


class AnyCollection(Store):
    async def query(self, text, *, collection, top_k, where=None):
        return await super().query(text, collection=None, top_k=top_k, where=where)


class KnownCollections(AnyCollection):
    """Right for a collection that is not there, wrong for one that is."""

    async def query(self, text, *, collection, top_k, where=None):
        if collection not in (None, "a", "b"):
            raise LookupError(f"no collection {collection}")
        return await super().query(text, collection=collection, top_k=top_k, where=where)


class HidesCollections(Store):
    async def collections(self):
        return (await super().collections())[:1]


class NoFilter(Store):
    async def query(self, text, *, collection, top_k, where=None):
        read_filter(where)
        return await super().query(text, collection=collection, top_k=top_k)


class LenientFilter(Store):
    async def query(self, text, *, collection, top_k, where=None):
        return await super().query(text, collection=collection, top_k=top_k)


class FailsEmpty(Empty):
    async def query(self, text, *, collection, top_k, where=None):
        raise ZeroDivisionError


class WantsWords(Store):
    async def query(self, text, *, collection, top_k, where=None):
        text.encode()  # half a character cannot be encoded
        return await super().query(text, collection=collection, top_k=top_k, where=where)


class RemembersTheLast(Store):
    async def query(self, text, *, collection, top_k, where=None):
        import asyncio

        self.top_k = top_k
        await asyncio.sleep(0)
        return await super().query(text, collection=collection, top_k=self.top_k, where=where)


RETRIEVERS = {
    "test_hits_have_their_shape": ({"store": NoNumbers}, "a distance is a finite number"),
    "test_the_nearest_comes_first": ({"store": WorstFirst}, "the best comes first"),
    "test_no_more_than_top_k_come": ({"store": TooMany}, "top_k=1 gave 2"),
    "test_an_unknown_collection_has_nothing": ({"store": AnyCollection}, "there is no collection"),
    "test_a_collection_is_searched_alone": ({"store": KnownCollections}, "a search in 'a' gave"),
    "test_collections_are_listed": ({"store": HidesCollections}, "which collections() does not have"),
    "test_filters_mean_what_they_say": ({"store": NoFilter}, "lets through"),
    "test_a_filter_that_cannot_be_read_is_refused": ({"store": LenientFilter}, "must raise FilterError"),
    "test_an_empty_store_has_nothing": ({"empty_store": FailsEmpty}, ""),
    "test_any_question_is_answered": ({"store": WantsWords}, "raised UnicodeEncodeError"),
    "test_questions_side_by_side_do_not_mix": ({"store": RemembersTheLast}, "of nine at once"),
    "test_its_module_is_light": ({"plugin": HEAVY}, "imports aiohttp, httpx"),
}

KITS = ((GoodHandler, HANDLERS), (GoodImplementation, IMPLEMENTATIONS), (GoodRetriever, RETRIEVERS))


@pytest.mark.parametrize(("good", "name"), [(good, name) for good, _ in KITS for name, _ in laws_of(good)])
def test_a_right_one_keeps_every_law(good, name):
    """The one the wrong ones are made of."""
    getattr(good(), name)()


@pytest.mark.parametrize(
    ("good", "name", "flaws", "words"), [(g, n, *case) for g, wrong in KITS for n, case in wrong.items()]
)
def test_a_law_catches_one_that_breaks_it(good, name, flaws, words):
    """The verdict says what is wrong."""
    wrong = type("Wrong", (good,), flaws)()

    with pytest.raises(Exception) as caught:
        getattr(wrong, name)()

    assert not isinstance(caught.value, unittest.SkipTest)
    assert words in str(caught.value)


@pytest.mark.parametrize(("good", "wrong"), KITS)
def test_every_law_is_shown_to_catch_something(good, wrong):
    """No law may be added without something that breaks it."""
    assert {name for name, _ in laws_of(good)} - {"test_no_law_is_replaced"} == wrong.keys()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(1), "raised SystemExit"),
        (ValueError("Traceback (most recent call last)"), "shows the model the code"),
        (ValueError("<flexchat.Thing object at 0x7f00>"), "shows the model the code"),
        (ValueError("x" * 2000), "of 2000 characters"),
    ],
)
def test_an_error_no_model_can_use_is_told(error, words):
    """The forms in which code shows through, and an end of the program."""
    wrong = type("Wrong", (GoodHandler,), handler(refuses_with(error)))()

    with pytest.raises(AssertionError, match=".*" + words.replace("(", r"\(")):
        wrong.test_its_errors_are_for_the_model()


def test_importing_a_kit_imports_nothing_heavy_without_being_asked():
    """flexchat_testing is loaded by flexchat-mock, which every command loads; the rest comes when it is asked for."""
    import subprocess

    code = (
        "import sys, flexchat_testing\n"
        "print(*[m for m in ('httpx', 'hypothesis', 'pytest', 'jsonschema') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
