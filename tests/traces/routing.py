"""Phases 1 to 5: where a message goes."""

from flexchat import AssistantMessage, ChatRequest, RetrievalError, ToolMessage, Usage
from flexchat.config.model import ResponseRule
from flexchat.plugin import ToolCall
from flexchat_sdk import ProviderConnectionError
from flexchat_testing import says

from .doubles import Shelf, on_shelf
from .recording import HANG, Scene, Streaming, scene

HISTORY = [{"role": "user", "content": "Trains?"}, {"role": "assistant", "content": "They go."}]
BY_TOPIC = {
    "topic": {"llm": "judge", "model": "j"},
    "responses": [
        {"llm": "bot", "model": "m", "name": "Trains", "match": {"topic": "trains"}, "prompt": "About {{topic}}."},
        {"llm": "bot", "model": "m", "name": "Else"},
    ],
}
BY_INTENT = {
    "intent": {"llm": "judge", "detection": {"buy": "Wants to buy.", "ask": "Wants to know."}},
    "responses": [
        {"llm": "bot", "model": "m", "name": "Shop", "match": {"intent": "buy"}},
        {"llm": "bot", "model": "m", "name": "Else"},
    ],
}
BY_DOCUMENTS = {
    "stores": {"shelf": {"provider": "shelf"}},
    "responses": [
        {
            "llm": "bot",
            "model": "m",
            "name": "Known",
            "match": {"rag_results": "match"},
            "prompt": "From {{service}}:\n{{rag_context}}",
        },
        {"llm": "bot", "model": "m", "name": "Unknown"},
    ],
}


def judged(judge, tables, **rest):
    """A scene in which a second LLM decides where the message goes."""
    return Scene(models={"bot": Streaming("Fine."), "judge": Streaming(*judge)}, tables=tables, **rest)


@scene
def topic_by_a_model():
    answer = says(
        '{"topic_status": "new_topic", "topic_summary": "trains"}', usage=Usage(input_tokens=5, output_tokens=6)
    )
    return judged([answer], BY_TOPIC)


@scene
def topic_that_goes_on():
    answer = '<think>Still the same?</think>{"topic_status": "continuation", "topic_summary": "trains"}'
    return judged([answer], BY_TOPIC, asked={"history": HISTORY, "topic": "trains"})


@scene
def topic_without_an_answer():
    return judged([ProviderConnectionError("gone")], BY_TOPIC)


@scene
def topic_from_a_broken_provider():
    return judged([RuntimeError("a bug")], BY_TOPIC)


@scene
def topic_too_late():
    return judged([HANG], {**BY_TOPIC, "limits": {"phase_timeout_ms": 20}})


@scene
def topic_until_the_turns_end():
    return judged([HANG], {**BY_TOPIC, "limits": {"turn_timeout_ms": 20}})


@scene
def intent_by_a_model():
    return judged(["buy"], BY_INTENT)


@scene
def intent_that_is_none():
    return judged(["singing"], BY_INTENT)


@scene
def intent_without_an_answer():
    return judged([ProviderConnectionError("gone")], BY_INTENT)


@scene
def intent_and_topic():
    topic = '{"topic_status": "new_topic", "topic_summary": "trains"}'
    tables = {**BY_INTENT, "topic": BY_TOPIC["topic"]}
    return judged([topic, "buy"], tables, asked={"history": HISTORY})


@scene
def documents_that_fit():
    return Scene(models=["On the shelf [1]."], tables=BY_DOCUMENTS, gates=[on_shelf(Shelf(0.1))])


@scene
def documents_that_do_not():
    return Scene(models=["Nothing there."], tables=BY_DOCUMENTS, gates=[on_shelf(Shelf(0.9))])


@scene
def documents_of_a_chosen_collection():
    shelf = on_shelf(Shelf(0.1))
    return Scene(models=["Yes."], tables=BY_DOCUMENTS, gates=[shelf], asked={"collections": ["shelf/books"]})


@scene
def documents_of_no_collection():
    return Scene(models=["Yes."], tables=BY_DOCUMENTS, gates=[on_shelf(Shelf(0.1))], asked={"collections": []})


@scene
def store_that_fails():
    shelf = on_shelf(Shelf(RetrievalError("the shelf fell down")))
    return Scene(models=["No idea."], tables=BY_DOCUMENTS, gates=[shelf])


@scene
def store_that_breaks():
    return Scene(models=["No idea."], tables=BY_DOCUMENTS, gates=[on_shelf(Shelf(RuntimeError("a bug")))])


@scene
def store_too_late():
    tables = {**BY_DOCUMENTS, "limits": {"phase_timeout_ms": 20}}
    return Scene(models=["No idea."], tables=tables, gates=[on_shelf(Shelf(HANG))])


@scene
def no_rule():
    never = ResponseRule(llm="bot", model="m", match={"user_message_regexp": "never"})
    return Scene(models=["Never."], only_rule=never)


@scene
def no_rule_for_all_the_rest():
    tables = {"responses": [{"llm": "bot", "model": "m", "match": {"user_message_regexp": "never"}}]}
    return Scene(models=["Never."], tables=tables)


@scene
def topic_by_the_rules_own_model():
    topic = '{"topic_status": "continuation", "topic_summary": "trains"}'
    return Scene(models=[topic, "Yes."], asked={"topic": "rails", "history": HISTORY}, rule={"prompt": "{{topic}}"})


@scene
def calls_the_caller_has_run():
    call = ToolCall.from_object("look", {"at": "it"}, id="call_of_the_caller")
    answered = ToolMessage(tool_call_id=call.id, name="look", content="seen")
    request = ChatRequest(user_message="Look!", continuation=(AssistantMessage(parts=(call,)), answered))
    return Scene(models=["I have."], message=request)


@scene
def an_unknown_llm():
    return Scene(models=["Never."], rule={"llm": "nobody"})


@scene
def an_empty_message():
    return Scene(models=["Never."], message="  ")


@scene
def a_message_that_is_too_long():
    return Scene(models=["Never."], tables={"limits": {"message_chars": 3}})


@scene
def a_history_that_cannot_be_read():
    return Scene(models=["Never."], asked={"history": [7]})
