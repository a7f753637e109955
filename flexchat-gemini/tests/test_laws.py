"""What holds for every answer and every conversation."""

import itertools
import json
from collections.abc import Mapping
from typing import Any

import attrs
import httpx
from flexchat.plugin import ChatResult, ToolCall
from flexchat_gemini.answer import FRAMING, GeminiAnswer
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.contents import NO_SIGNATURE
from flexchat_gemini.provider import GeminiProvider
from flexchat_gemini.request import RequestWriter
from flexchat_sdk import (
    AnswerEnd,
    AnswerReader,
    AssistantMessage,
    ChatOptions,
    Message,
    ProviderError,
    ProviderProtocolError,
    ToolMessage,
    UserMessage,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples

HERE = "https://here.example"
HI = UserMessage(content="hi")
few = settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])

NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
SIGNED = st.sampled_from([{}, {}, {"thoughtSignature": "c2ln"}, {"thoughtSignature": "Zm9v/+=="}])
NAMES = st.sampled_from(["f", "g", "weather.get"])


def part(payload: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda side, said: {**said, **side}, SIGNED, payload)


CALLS = st.fixed_dictionaries(
    {"name": NAMES, "args": st.dictionaries(TEXTS, JSON, max_size=3)}, optional={"id": st.sampled_from(["a", "b"])}
)
PARTS = st.lists(
    part(st.fixed_dictionaries({"text": TEXTS}, optional={"thought": st.just(True)}))
    | part(st.fixed_dictionaries({"functionCall": CALLS}))
    | part(st.fixed_dictionaries({"executableCode": st.fixed_dictionaries({"code": TEXTS})}))
    | part(st.fixed_dictionaries({"inlineData": st.just({"mimeType": "image/png", "data": "AAEC"})}))
    | part(st.fixed_dictionaries({"fileData": st.just({"mimeType": "video/mp4", "fileUri": "gs://x"})}))
    | part(st.fixed_dictionaries({"brandNew": JSON})),
    max_size=6,
)


def failed(body: object) -> ProviderError:
    return ProviderError(str(body))


def read(parts: list[dict[str, Any]]) -> ChatResult:
    answer = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    end = [
        *AnswerReader(GeminiAnswer(HERE), failed, ProviderProtocolError, FRAMING).whole(json.dumps(answer).encode())
    ][-1]
    assert isinstance(end, AnswerEnd)
    return end.result


def sent(*messages: Message, origin: str = HERE, model: str = "gemini-2.5-flash") -> list[dict[str, Any]]:
    content, _ = RequestWriter(origin, GeminiConfig()).body(messages, model, ChatOptions())
    contents: list[dict[str, Any]] = json.loads(bytes(content))["contents"]
    return contents


def joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what goes back: texts of one kind joined, and an id with the first call that has it."""
    made: list[dict[str, Any]] = []
    ids: set[str] = set()
    for each in parts:
        kind = each.keys()
        call = each.get("functionCall", {})
        if call.get("id") in ids:
            each = {**each, "functionCall": {key: value for key, value in call.items() if key != "id"}}
        ids.update([call["id"]] if "id" in call else [])
        if kind <= {"text", "thought"} and not each["text"]:
            continue
        if kind <= {"text", "thought"} and made and made[-1].keys() == kind:
            made[-1] = {**each, "text": made[-1]["text"] + each["text"]}
        else:
            made.append(each)
    return made


def without_ids(message: AssistantMessage) -> AssistantMessage:
    parts = [attrs.evolve(each, id="") if isinstance(each, ToolCall) else each for each in message.parts]
    return attrs.evolve(message, parts=tuple(parts))


@few
@given(PARTS)
def test_an_answer_goes_back_as_it_came(parts: list[dict[str, Any]]) -> None:
    """Wire to neutral to wire: the same parts in the same order, signatures byte for byte."""
    message = read(parts).message
    again = [content["parts"] for content in sent(HI, message) if content["role"] == "model"]

    assert again == ([joined(parts)] if joined(parts) else [])


@few
@given(PARTS)
def test_a_message_survives_the_wire(parts: list[dict[str, Any]]) -> None:
    """Neutral to wire to neutral: equal, but for the ids that are ours."""
    message = read(parts).message
    (*_, content) = sent(HI, message)
    again = read(content["parts"] if content["role"] == "model" else []).message

    assert without_ids(again) == without_ids(message)
    assert len({call.id for call in message.tool_calls}) == len(message.tool_calls)


@few
@given(PARTS, st.booleans())
def test_nothing_opaque_reaches_another_host(parts: list[dict[str, Any]], insists: bool) -> None:
    """No signature, thought, block or id: texts, calls and files only. A model that insists gets the stand-in."""
    message = read(parts).message
    model = "gemini-3-pro-preview" if insists else "gemini-2.5-flash"
    contents = sent(HI, message, origin="https://there.example", model=model)
    found = [each for content in contents if content["role"] == "model" for each in content["parts"]]

    payloads = {"text", "functionCall", "inlineData", "fileData", "thoughtSignature"}
    assert all(each.keys() <= payloads for each in found)
    assert all("id" not in each.get("functionCall", {}) for each in found)
    signatures = [each["thoughtSignature"] for each in found if "thoughtSignature" in each]
    assert signatures == ([NO_SIGNATURE] if insists and message.tool_calls else [])


@few
@given(st.lists(st.tuples(st.text(max_size=5), PARTS, st.randoms(use_true_random=False)), max_size=4))
def test_every_conversation_keeps_the_services_rules(turns: list[tuple[str, list[dict[str, Any]], Any]]) -> None:
    """It begins with the user; responses are alone, as many as calls, in their order; roles alternate otherwise."""
    messages: list[Message] = []
    for text, parts, chance in turns:
        answer = read(parts).message
        results = [ToolMessage(tool_call_id=c.id, name=c.name, content=json.dumps(c.name)) for c in answer.tool_calls]
        chance.shuffle(results)
        messages += [UserMessage(content=text), answer, *results]
    contents = sent(*messages)

    assert contents[0]["role"] == "user"
    kinds = [(c["role"], "functionResponse" in c["parts"][0]) for c in contents]
    assert all(a != b for a, b in itertools.pairwise(kinds))
    for before, content in zip([{"parts": []}, *contents], contents, strict=False):
        responses = [p["functionResponse"] for p in content["parts"] if "functionResponse" in p]
        assert len(responses) in (0, len(content["parts"]))
        if responses:
            calls = [p["functionCall"] for p in before["parts"] if "functionCall" in p]
            assert [(r["name"], r.get("id")) for r in responses] == [(c["name"], c.get("id")) for c in calls]


@few
@given(st.lists(PARTS, min_size=1, max_size=4), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_a_stream_may_be_cut_anywhere(pieces: list[list[dict[str, Any]]], line: str, data: st.DataObject) -> None:
    """At every byte: the same events; and its end is the unstreamed answer."""
    chunks: list[dict[str, Any]] = [{"candidates": [{"content": {"parts": parts}}]} for parts in pieces]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    raw = "".join(f"data: {json.dumps(c, ensure_ascii=False)}{line}{line}" for c in chunks).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))

    def events(*slices: bytes) -> list[Any]:
        stream = AnswerReader(GeminiAnswer(HERE), failed, ProviderProtocolError, FRAMING)
        return [e for each in slices for e in stream.feed(each)] + [*stream.end()]

    def shown(found: list[Any]) -> list[str]:
        return [json.dumps(_plain(e), default=str) for e in found]

    whole = events(raw)
    assert shown(events(*[raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)])) == shown(whole)
    assert shown(events(*[raw[at : at + 1] for at in range(len(raw))])) == shown(whole)
    unstreamed = read([part for parts in pieces for part in parts])
    assert without_ids(whole[-1].result.message) == without_ids(unstreamed.message)
    assert whole[-1].result.finish_reason == unstreamed.finish_reason


def _plain(event: Any) -> Any:
    kept = attrs.asdict(event, filter=lambda a, _: a.name not in ("id", "memo"))
    return [type(event).__name__, kept]


RICH: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "t", "thoughtSignature": "s"},
                    {"functionCall": {"id": "w", "name": "f", "args": {"a": [1]}}, "thoughtSignature": "s"},
                    {"inlineData": {"mimeType": "image/png", "data": "AAEC"}},
                    {"executableCode": {"code": "1"}},
                ],
            },
            "finishReason": "STOP",
            "finishMessage": "m",
            "index": 0,
            "citationMetadata": {"citationSources": [{"uri": "u"}]},
            "groundingMetadata": {"webSearchQueries": ["q"]},
        }
    ],
    "promptFeedback": {"blockReason": "SAFETY"},
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2},
    "modelVersion": "m",
    "responseId": "r",
    "error": {"code": 3, "message": "m", "details": [{"violations": [{"quotaId": "q"}], "retryDelay": "1s"}]},
}


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *[place for key, inner in items for place in places(inner, (*at, key))]]


def replaced(value: Any, place: tuple[Any, ...], by: Any) -> Any:
    if not place:
        return by
    if isinstance(value, dict):
        return {k: replaced(v, place[1:], by) if k == place[0] else v for k, v in value.items()}
    return [replaced(v, place[1:], by) if at == place[0] else v for at, v in enumerate(value)]


@settings(max_examples=examples(120))
@given(st.sampled_from(places(RICH)), JSON | st.just({"text": "x"}) | st.just([{}]), st.booleans(), st.booleans())
async def test_any_json_anywhere_is_a_result_or_an_error_of_ours(
    place: tuple[Any, ...], by: Any, has_error: bool, stream: bool
) -> None:
    """No node of an answer is trusted; and what was read can be sent back, and is shown without an error."""
    answer = RICH if has_error or place[:1] == ("error",) else {k: v for k, v in RICH.items() if k != "error"}
    raw = json.dumps(replaced(answer, place, by)).encode()
    body = b"data: " + raw + b"\n\n" if stream else raw
    made = GeminiProvider(
        GeminiConfig(base_url=HERE), transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    )
    try:
        if stream:
            end = [event async for event in made.stream_chat((HI,), "m", ChatOptions())][-1]
            assert isinstance(end, AnswerEnd)
            result = end.result
        else:
            result = await made.generate_chat((HI,), "m", ChatOptions())
    except ProviderError:
        return
    assert isinstance(result.message.content, str | None)
    assert all(call.arguments is None or isinstance(call.arguments, Mapping) for call in result.tool_calls)
    assert sent(HI, result.message)[0]["role"] == "user"
    assert repr(result)


LISTS: list[tuple[str, Any]] = [
    ("list", {"models": [{"name": "models/x", "supportedGenerationMethods": ["a"]}], "nextPageToken": ""}),
    ("embed", {"embeddings": [{"values": [1.0]}], "usageMetadata": {"promptTokenCount": 1}}),
]


@settings(max_examples=examples(80))
@given(st.sampled_from([(kind, body, at) for kind, body in LISTS for at in places(body)]), JSON)
async def test_any_json_in_a_list_is_a_result_or_an_error_of_ours(
    case: tuple[str, Any, tuple[Any, ...]], by: Any
) -> None:
    """Models and vectors."""
    kind, body, place = case
    raw = json.dumps(replaced(body, place, by)).encode()
    made = GeminiProvider(
        GeminiConfig(base_url=HERE), transport=httpx.MockTransport(lambda _: httpx.Response(200, content=raw))
    )
    try:
        if kind == "list":
            assert all(isinstance(model.id, str) for model in await made.list_models())
        else:
            assert len((await made.embed(["a"], "e")).vectors) == 1
    except ProviderError:
        pass


@settings(max_examples=examples(200))
@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda raw: b"data: " + raw + b"\n\n"))
def test_any_bytes_are_events_or_an_error_of_ours(raw: bytes) -> None:
    """A stream of anything."""
    stream = AnswerReader(GeminiAnswer(HERE), failed, ProviderProtocolError, FRAMING)
    try:
        events = [*stream.feed(raw), *stream.end()]
    except ProviderError:
        return
    assert isinstance(events[-1], AnswerEnd)
