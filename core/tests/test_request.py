"""From the keywords of respond to a request."""

import attrs
import pytest
from flexchat import CollectionChoice
from flexchat.domain import AssistantMessage, ChatRequest, UserMessage
from flexchat.errors import ChatRequestError, UnknownNameError
from flexchat.request import Asked, read_request


def request(message="x", config=None, **asked):
    return read_request(message, asked, message_chars=20, stores=("docs",), variables=config or {})


def test_the_keywords_are_the_fields_of_a_request():
    """In their order: both are documentation."""
    assert [*Asked.__annotations__] == [
        field.name for field in attrs.fields(ChatRequest) if field.name != "user_message"
    ]


def test_a_keyword_that_does_not_exist_is_named():
    with pytest.raises(TypeError, match=r"no keyword 'histroy' \(did you mean 'history'\?\)"):
        request(histroy=[])


WHOLE = ChatRequest(
    user_message="hello",
    history=(UserMessage(content="first"),),
    topic="tea",
    collections=(CollectionChoice(store="docs"),),
    continuation=(AssistantMessage(),),
    variables={"name": "Ann"},
    response_format={"type": "object"},
    conversation="c",
    tenant="t",
    context=7,
)


def test_a_whole_request_is_taken_as_it_is():
    assert request(WHOLE) == WHOLE


def test_keywords_go_before_a_request():
    """But for the history, which comes behind it, and variables, which are put together by name."""
    made = request(
        WHOLE,
        history=[{"role": "user", "content": "second"}],
        topic="coffee",
        collections=[],
        continuation=[],
        variables={"place": "Bern"},
        response_format={"type": "string"},
        conversation="d",
        tenant="u",
        context=8,
    )

    assert [message.content for message in made.history] == ["first", "second"]
    assert (made.topic, made.collections, made.continuation) == ("coffee", (), ())
    assert made.variables == {"name": "Ann", "place": "Bern"}
    assert (made.response_format, made.conversation, made.tenant, made.context) == ({"type": "string"}, "d", "u", 8)


def test_none_says_nothing():
    nothing = dict.fromkeys(Asked.__annotations__)

    assert request(WHOLE, **nothing) == WHOLE
    assert request("x", **nothing) == request("x")


def test_the_variables_of_the_config_come_last():
    config = {"name": "Bob", "shop": "Tea & Co."}

    assert request(WHOLE, config).variables == {"name": "Ann", "shop": "Tea & Co."}
    assert request("x", config).variables == config


def test_what_the_caller_keeps_is_not_shared():
    config, own = {"a": "1"}, {"b": ["2"]}
    made = read_request("x", {"variables": own}, message_chars=9, stores=(), variables=config)
    own["b"].append("3")

    assert made.variables == {"a": "1", "b": ["2"]}
    assert request("x", config).variables is not config


@pytest.mark.parametrize(
    ("message", "asked", "words"),
    [
        (" ", {}, "empty"),
        ("x" * 21, {}, "21 characters"),
        (7, {}, "not int"),
        (ChatRequest(user_message=""), {}, "empty"),
        ("x", {"topic": 7}, "a topic is a text"),
        ("x", {"conversation": 7}, "a conversation is a text"),
        ("x", {"tenant": 7}, "a tenant is a text"),
        ("x", {"variables": [1]}, "names and values"),
        ("x", {"variables": {1: "x"}}, "a name is a text"),
        ("x", {"collections": [7]}, "a collection is"),
        ("x", {"continuation": [UserMessage(content="x")]}, "what followed the message"),
    ],
)
def test_what_cannot_be_used_is_refused(message, asked, words):
    with pytest.raises(ChatRequestError, match=words):
        request(message, **asked)


def test_a_store_that_does_not_exist_is_named():
    with pytest.raises(UnknownNameError, match=r"'doc' \(did you mean 'docs'\?\)"):
        request(collections=["doc/faq"])
