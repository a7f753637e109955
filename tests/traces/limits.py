"""How the tool loop is ended."""

from flexchat_testing import calls, says

from .doubles import A, B, echo
from .recording import Scene, scene


@scene
def at_limit_a_sentence():
    return Scene(models=[calls(A), calls(B)], tools=[echo], tables={"tools": {"max_iterations": 2}})


@scene
def at_limit_an_answer():
    tables = {"tools": {"max_iterations": 2, "at_limit": "answer"}}
    return Scene(models=[calls(A), calls(B), "So far."], tools=[echo], tables=tables)


@scene
def at_limit_calls_again():
    tables = {"tools": {"max_iterations": 1, "at_limit": "answer"}}
    return Scene(models=[calls(A), calls(B)], tools=[echo], tables=tables)


@scene
def at_limit_of_the_rule():
    rule = {"tools": {"max_iterations": 1}}
    return Scene(models=[calls(A)], tools=[echo], rule=rule)


@scene
def at_limit_with_a_format():
    rule = {"tools": {"max_iterations": 1}, "response_format": {"type": "json_object"}}
    return Scene(models=[calls(A), '{"a": 1}'], tools=[echo], rule=rule)


@scene
def a_choice_for_the_first_answer():
    rule = {"tools": {"choice": "required"}}
    return Scene(models=[calls(A), "Done."], tools=[echo], rule=rule)


@scene
def a_choice_that_is_not_kept_to():
    rule = {"tools": {"choice": "required"}}
    return Scene(models=["No."], tools=[echo], rule=rule)


@scene
def no_calls_side_by_side():
    rule = {"tools": {"parallel": False}}
    return Scene(models=[calls(A), "Done."], tools=[echo], rule=rule)


@scene
def pause_without_tools():
    return Scene(models=[says("Half ", finish_reason="pause"), "and half."])


@scene
def pause_with_tools():
    return Scene(models=[says("Half ", finish_reason="pause"), calls(A), "and half."], tools=[echo])


@scene
def pause_without_end():
    tables = {"tools": {"max_iterations": 2}}
    return Scene(models=[says("Half ", finish_reason="pause")] * 3, tables=tables)


@scene
def pause_with_tools_without_end():
    tables = {"tools": {"max_iterations": 2}}
    return Scene(models=[says("Half ", finish_reason="pause")] * 3, tools=[echo], tables=tables)


@scene
def a_call_that_cannot_be_read():
    unread = says("", finish_reason="malformed_tool_call")
    return Scene(models=[unread, calls(A), "Done."], tools=[echo])


@scene
def a_call_that_cannot_be_read_twice():
    unread = says("", finish_reason="malformed_tool_call")
    return Scene(models=[unread, unread, "Done."], tools=[echo])
