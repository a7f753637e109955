"""Answers that must have a format."""

import attrs
from flexchat import UserMessage
from flexchat_testing import calls, says

from .doubles import A, Splitting, echo
from .recording import Scene, scene

ANY = {"response_format": {"type": "json_object"}}
CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name", "size"],
    "additionalProperties": False,
}
OF_CITY = {"response_format": {"name": "city", "schema": CITY}}
ROME = '{"name": "Rome", "size": 3}'


@attrs.frozen
class City:
    name: str
    size: int


@scene
def at_once():
    return Scene(models=[ROME], rule=OF_CITY)


@scene
def any_object():
    return Scene(models=['{"a": [1, 2]}'], rule=ANY)


@scene
def a_class_of_the_callers():
    return Scene(models=[ROME], asked={"response_format": City})


@scene
def before_the_rules_own():
    return Scene(models=[ROME], rule=ANY, asked={"response_format": City})


@scene
def in_a_fence():
    return Scene(models=[f"```json\n{ROME}\n```"], rule=OF_CITY)


@scene
def asked_again():
    return Scene(models=["Rome is large.", ROME], rule=OF_CITY)


@scene
def asked_again_with_history():
    history = [UserMessage(content="Earlier."), {"role": "assistant", "content": "Yes."}]
    return Scene(models=['{"name": "Rome"}', ROME], rule=OF_CITY, asked={"history": history})


@scene
def asked_again_in_vain():
    return Scene(models=["Rome is large.", "It really is."], rule=OF_CITY)


@scene
def filtered():
    return Scene(models=[says('{"name": "R', finish_reason="content_filter")], rule=OF_CITY)


@scene
def cut_off():
    return Scene(models=[says('{"name": "R', finish_reason="length")], rule=OF_CITY)


@scene
def paused():
    return Scene(models=[says('{"name": "Rome", ', finish_reason="pause"), '"size": 3}'], rule=OF_CITY)


@scene
def paused_and_asked_again():
    return Scene(models=[says('{"name": "Rome", ', finish_reason="pause"), "and so on", ROME], rule=OF_CITY)


@scene
def with_tools():
    return Scene(models=[calls(A), ROME], tools=[echo], rule=OF_CITY)


@scene
def with_tools_asked_again():
    return Scene(models=[calls(A), "Rome.", ROME], tools=[echo], rule=OF_CITY)


@scene
def where_tools_forbid_it():
    return Scene(models={"bot": Splitting(calls(A), "Rome is large.", ROME)}, tools=[echo], rule=OF_CITY)


@scene
def where_tools_forbid_it_and_it_is_there_already():
    return Scene(models={"bot": Splitting(calls(A), ROME)}, tools=[echo], rule=OF_CITY)


@scene
def where_tools_forbid_it_in_vain():
    return Scene(models={"bot": Splitting(calls(A), "Rome.", "Rome!", "Rome?")}, tools=[echo], rule=OF_CITY)
