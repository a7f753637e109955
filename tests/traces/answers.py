"""What models answer, and what they do instead: one exchange, its fallbacks, and contracts that are not kept."""

import asyncio

from flexchat import AssistantMessage, ReasoningDelta, TextDelta, Usage
from flexchat.plugin import ChatResult
from flexchat_sdk import (
    ContentFilterError,
    ContextLengthError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderTimeoutError,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from flexchat_testing import calls, says

from .doubles import SAVE, A, echo, save
from .names import AnswerEnd
from .recording import Model, Scene, Streaming, scene

SPARE = {"fallback": ["spare"]}
BUSY = "the service is busy"


def spared(*replies, spare=("I can.",), **rest):
    """A scene in which another LLM may answer."""
    rule = {**SPARE, **rest.pop("rule", {})}
    return Scene(models={"bot": Streaming(*replies), "spare": Streaming(*spare)}, rule=rule, **rest)


@scene
def plain():
    return Scene(models=["Hello there, you."], rule={"prompt": "Be brief with {{user_message}}."})


@scene
def with_all_it_may_tell():
    said = AssistantMessage(parts=(ReasoningPart(text="Hm, hm."), TextPart(text="Five.")))
    usage = Usage(input_tokens=7, output_tokens=3, reasoning_tokens=2)
    result = ChatResult(
        message=said, finish_reason="stop", usage=usage, model="m-2", warnings=("top_p is not supported",)
    )
    return Scene(models=[result], rule={"reasoning": {"effort": "low", "summary": True}})


@scene
def usage_of_several_rounds():
    first = calls(A, usage=Usage(input_tokens=10, output_tokens=1))
    return Scene(models=[first, says("Done.", usage=Usage(input_tokens=20, output_tokens=2))], tools=[echo])


@scene
def every_option_of_a_rule():
    rule = {
        "max_tokens": 9,
        "temperature": 0,
        "top_p": 0.5,
        "stop": ["END"],
        "seed": 4,
        "extra_body": {"x": 1},
    }
    return Scene(models=["Fine."], rule=rule)


@scene
def the_llms_default_model():
    return Scene(models=["Fine."], tables={"responses": [{"llm": "bot"}]})


@scene
def with_history_and_variables():
    history = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}]
    asked = {"history": history, "variables": {"name": "Ann"}}
    return Scene(models=["Three."], rule={"prompt": "You talk to {{name}}."}, asked=asked)


@scene
def from_a_provider_that_cannot_stream():
    return Scene(models={"bot": Model("Hello there.")})


@scene
def calls_of_a_provider_that_cannot_stream():
    return Scene(models={"bot": Model(calls(A, text="Let me see."), "Done.")}, tools=[echo])


@scene
def empty():
    return Scene(models=[""])


@scene
def cut_off():
    return Scene(models=[says("Half a sent", finish_reason="length")])


@scene
def filtered():
    return Scene(models=[says("", finish_reason="content_filter")])


@scene
def refused():
    said = AssistantMessage(parts=(RefusalPart(text="I will not."),))
    return Scene(models=[ChatResult(message=said, finish_reason="refusal")])


@scene
def without_a_reason():
    return Scene(models=[says("Fine.", finish_reason=None)])


@scene
def under_an_unknown_reason():
    return Scene(models=[says("", finish_reason="bored")])


@scene
def fallback():
    return spared(ProviderOverloadedError(BUSY))


@scene
def fallback_with_tools():
    return spared(ProviderOverloadedError(BUSY), spare=(calls(A), "Done."), tools=[echo], rule={"tools": {}})


@scene
def fallback_between_rounds():
    return spared(calls(A), ProviderOverloadedError(BUSY), tools=[echo], rule={"tools": {}})


@scene
def no_fallback_after_a_write():
    return spared(calls(SAVE), ProviderOverloadedError(BUSY), tools=[save], rule={"tools": {}})


@scene
def no_fallback_after_the_first_piece():
    return spared([TextDelta(0, "I "), ProviderOverloadedError(BUSY)])


@scene
def no_fallback_for_what_will_not_help():
    return spared(ProviderAuthError("the key is wrong"))


@scene
def fallback_in_vain():
    return spared(ProviderOverloadedError(BUSY), spare=(ProviderConnectionError("gone"),))


@scene
def fallback_to_one_that_cannot_stream():
    models = {"bot": Streaming(ProviderOverloadedError(BUSY)), "spare": Model("I can.")}
    return Scene(models=models, rule=SPARE)


@scene
def fallback_with_a_format():
    return spared(ProviderOverloadedError(BUSY), spare=('{"a": 1}',), rule={"response_format": {"type": "json_object"}})


@scene
def too_long():
    return Scene(models=[ContextLengthError("too many tokens")])


@scene
def filtered_by_an_error():
    return Scene(models=[ContentFilterError("not this")])


@scene
def a_providers_own_timeout():
    return Scene(models=[ProviderTimeoutError("no answer in 3 s")])


@scene
def broken_off_in_a_thought():
    pieces = [ReasoningDelta(0, "Hm "), TextDelta(1, "We "), TextDelta(1, "must"), ProviderConnectionError("gone")]
    return Scene(models=[pieces])


@scene
def broken_stream_without_end():
    return Scene(models=[[TextDelta(0, "Hel")]], only_streamed=True)


@scene
def broken_stream_without_anything():
    return Scene(models=[[]], only_streamed=True)


@scene
def broken_stream_goes_on():
    return Scene(models=[[TextDelta(0, "Hi"), AnswerEnd(says("Hi")), TextDelta(0, "!")]], only_streamed=True)


@scene
def broken_end_without_result():
    return Scene(models=[[TextDelta(0, "Hi"), AnswerEnd(None)]])


@scene
def broken_answer():
    return Scene(models={"bot": Model(None)})


@scene
def broken_by_an_exception():
    return Scene(models=[RuntimeError("a bug")])


@scene
def broken_by_an_exception_in_the_stream():
    return Scene(models=[[TextDelta(0, "Hi"), RuntimeError("a bug")]])


@scene
def broken_by_cancelling_itself():
    return Scene(models=[asyncio.CancelledError("its own")])


@scene
def broken_by_leaving():
    return Scene(models=[SystemExit(3)])
