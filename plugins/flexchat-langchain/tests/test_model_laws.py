"""Laws of FlexChat as a chat model of LangChain's, for whatever a model asks for."""

from flexchat import SyncFlexChat, tool
from flexchat.assembly import installed_plugins
from flexchat_langchain.model import FlexChatModel
from flexchat_sdk import AssistantMessage, ToolMessage
from flexchat_testing import ScriptedProvider
from flexchat_testing.scripted import calls, says
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core import messages as lc

from examples import examples

CONFIG = {
    "llms": {"it": {"provider": "scripted", "default_model": "m"}},
    "responses": [{"llm": "it", "tools": {"enabled": True, "max_iterations": 50}}],
}
PLUGINS = installed_plugins()
BOUND = {"type": "object", "title": "theirs", "description": "The caller's.", "properties": {"n": {"type": "integer"}}}


@tool
def ours(n: int) -> int:
    """FlexChat's."""
    return n


def unpaired(messages):
    """What of a conversation is not a call with its one answer right behind it."""
    open_ids = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_ids:
                return f"a result of no call: {message}"
            open_ids.remove(message.tool_call_id)
        elif open_ids:
            return f"no result for {open_ids}"
        elif isinstance(message, AssistantMessage):
            open_ids = [call.id for call in message.tool_calls]
    return f"no result for {open_ids}" if open_ids else ""


rounds = st.lists(
    st.tuples(st.sampled_from(["", "Hm.", "So "]), st.lists(st.sampled_from(["ours", "theirs", "broken"]), min_size=1)),
    max_size=5,
)


@settings(max_examples=examples(40))
@given(rounds=rounds, streams=st.booleans())
def test_every_call_is_answered_once_and_run_by_whose_it_is(rounds, streams):
    """Whatever the order of own and bound calls, broken ones among them: the history is whole at every request."""
    number = 0

    def asked(name):
        nonlocal number
        number += 1
        return ("theirs", f'{{"n": {number}') if name == "broken" else (name, {"n": number})

    script = [calls(*map(asked, names), text=text) for text, names in rounds] + [says("Done.")]
    seen = []

    def next_reply(messages, options):
        seen.append(unpaired(messages))
        return script[len(seen) - 1]

    run = []
    service = ScriptedProvider([next_reply], repeat=True)
    with SyncFlexChat.from_config(CONFIG, providers={"it": service}, plugins=PLUGINS, tools=[ours]) as chat:
        model = FlexChatModel(chat=chat).bind_tools([BOUND])
        messages = [lc.HumanMessage("Go.")]
        while True:
            answer = None
            for piece in model.stream(messages) if streams else [model.invoke(messages)]:
                answer = piece if answer is None else answer + piece
            messages.append(answer)
            if not answer.tool_calls:
                break
            run += [(call["name"], call["args"]["n"]) for call in answer.tool_calls]
            messages += [lc.ToolMessage("ok", tool_call_id=call["id"]) for call in answer.tool_calls]
    assert seen == [""] * len(script)
    assert answer.text.endswith("Done.")
    assert answer.invalid_tool_calls == []
    wanted = [call for reply in script for call in reply.tool_calls if call.name == "theirs" and call.error is None]
    assert run == [("theirs", call.arguments["n"]) for call in wanted]
    ours_run = [r for m in messages[1:] for r in m.response_metadata.get("flexchat", {}).get("tool_calls", ())]
    alone = [reply for reply in script if not any(c.name == "theirs" and c.error is None for c in reply.tool_calls)]
    expected = [call.arguments["n"] for reply in alone for call in reply.tool_calls if call.name == "ours"]
    assert [r["result"]["result"] for r in ours_run if r["tool"] == "ours"] == expected
