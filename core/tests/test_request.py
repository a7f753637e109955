"""From the keywords of respond to a request."""

import json

import attrs
import pytest
from flexchat import CollectionChoice
from flexchat.domain import AssistantMessage, ChatRequest, Reasoning, UserMessage
from flexchat.domain.codec import value_from_dict, value_to_dict
from flexchat.errors import ChatRequestError, UnknownNameError
from flexchat.request import RequestOptions, read_request


def request(message="x", config=None, **asked):
    return read_request(message, asked, message_chars=20, stores=("docs",), variables=config or {})


def test_the_keywords_are_the_fields_of_a_request():
    """In their order: both are documentation. A call takes the place of a message, and is no option of one."""
    assert [*RequestOptions.__annotations__] == [
        field.name for field in attrs.fields(ChatRequest) if field.name not in ("user_message", "call")
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
    max_tokens=9,
    temperature=0,
    top_p=0.5,
    stop=("END",),
    seed=0,
    reasoning=Reasoning(effort="low"),
    extra_body={"x": 1},
    tool_choice="none",
    parallel_tool_calls=False,
    max_iterations=2,
)


def test_a_whole_request_is_taken_as_it_is():
    assert request(WHOLE) == WHOLE


def test_a_request_is_kept_with_its_options():
    """As the journal has it, for a turn that is resumed."""
    kept = json.loads(json.dumps(value_to_dict(attrs.evolve(WHOLE, context=None, response_format=None))))

    assert value_from_dict(ChatRequest, kept) == attrs.evolve(WHOLE, context=None, response_format=None)


def test_an_option_has_the_limits_of_a_rules_key():
    """One place says them: a config's."""
    wide = request(max_tokens=10**400, seed=-(10**400))

    assert (wide.max_tokens, wide.seed) == (10**400, -(10**400))


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
        max_tokens=1,
        temperature=2,
        top_p=0,
        stop="STOP",
        seed=-5,
        reasoning="high",
        extra_body={},
        tool_choice="auto",
        parallel_tool_calls=True,
        max_iterations=50,
    )

    assert [message.content for message in made.history] == ["first", "second"]
    assert (made.topic, made.collections, made.continuation) == ("coffee", (), ())
    assert made.variables == {"name": "Ann", "place": "Bern"}
    assert (made.response_format, made.conversation, made.tenant, made.context) == ({"type": "string"}, "d", "u", 8)
    assert (made.max_tokens, made.temperature, made.top_p, made.stop, made.seed) == (1, 2, 0, ("STOP",), -5)
    assert (made.reasoning, made.extra_body) == (Reasoning(effort="high"), {})
    assert (made.tool_choice, made.parallel_tool_calls, made.max_iterations) == ("auto", True, 50)


def test_none_says_nothing():
    nothing = dict.fromkeys(RequestOptions.__annotations__)

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
        ("x", {"temperature": 2.1}, "temperature must be at most 2, got 2.1"),
        ("x", {"temperature": -1}, "temperature must be at least 0, got -1"),
        ("x", {"temperature": "0"}, "temperature must be a number, got '0'"),
        ("x", {"temperature": float("nan")}, "temperature must be a number, got nan"),
        ("x", {"temperature": True}, "temperature must be a number, got True"),
        ("x", {"top_p": 1.5}, "top_p must be at most 1"),
        ("x", {"max_tokens": 0}, "max_tokens must be at least 1"),
        ("x", {"max_tokens": 1.5}, "max_tokens must be an integer"),
        ("x", {"seed": "7"}, "seed must be an integer"),
        ("x", {"max_iterations": 51}, "max_iterations must be at most 50"),
        ("x", {"stop": 5}, "stop is a text or several"),
        ("x", {"stop": ["a", 5]}, "stop is a text or several"),
        ("x", {"reasoning": "hihg"}, r"reasoning is one of none, .*; got 'hihg' \(did you mean 'high'\?\)"),
        ("x", {"reasoning": []}, "reasoning is one of"),
        ("x", {"tool_choice": "requird"}, "did you mean 'required'"),
        ("x", {"parallel_tool_calls": 1}, "parallel_tool_calls must be True or False"),
        ("x", {"extra_body": [1]}, "extra_body must be an object"),
        (ChatRequest(user_message="x", temperature=3), {}, "temperature must be at most 2"),
    ],
)
def test_what_cannot_be_used_is_refused(message, asked, words):
    with pytest.raises(ChatRequestError, match=words):
        request(message, **asked)


def test_a_store_that_does_not_exist_is_named():
    with pytest.raises(UnknownNameError, match=r"'doc' \(did you mean 'docs'\?\)"):
        request(collections=["doc/faq"])
