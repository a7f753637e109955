"""What becomes of the calls of an answer."""

from flexchat import tool
from flexchat_testing import calls

from .doubles import A, B, echo, fails, racing, save, think
from .recording import Scene, scene


@scene
def one_call():
    return Scene(models=[calls(A), "Done."], tools=[echo])


@scene
def text_beside_a_call():
    return Scene(models=[calls(A, text="Let me see."), "Done."], tools=[echo])


@scene
def two_rounds():
    return Scene(models=[calls(A), calls(B), "Done."], tools=[echo])


@scene
def side_by_side():
    return Scene(models=[calls(("slow", {}), ("quick", {})), "Done."], tools=racing())


@scene
def exclusive_between_others():
    alone = tool(exclusive=True, name="alone", description="Run alone.")(lambda: "alone")
    return Scene(models=[calls(A, B, ("alone", {}), A), "Done."], tools=[echo, alone])


@scene
def offered_and_not_called():
    return Scene(models=["Nothing to do."], tools=[echo])


@scene
def in_a_thread():
    return Scene(models=[calls(("think", {"text": "a"})), "Done."], tools=[think])


@scene
def a_tool_that_fails():
    return Scene(models=[calls(("fails", {"text": "x"}), A), "Sorry."], tools=[echo, fails])


@scene
def an_unknown_tool():
    return Scene(models=[calls(("ecko", {"text": "a"})), "Sorry."], tools=[echo])


@scene
def a_tool_that_is_not_offered():
    return Scene(
        models=[calls(("save", {"text": "a"})), "Sorry."],
        tools=[echo, save],
        rule={"tools": {"allowed_tools": ["echo"]}},
    )


@scene
def wrong_arguments():
    return Scene(models=[calls(("echo", {"txt": "a"})), calls(A), "Done."], tools=[echo])


@scene
def arguments_put_right():
    return Scene(models=[calls(("echo", {"text": 5})), "Done."], tools=[echo])


@scene
def malformed_arguments():
    return Scene(models=[calls(("echo", '{"text": "a'), B), "Done."], tools=[echo])


@scene
def malformed_three_times():
    return Scene(models=[calls(("echo", "{"))] * 3 + ["Done."], tools=[echo])


@scene
def cut_off_in_a_call():
    return Scene(models=[calls(A, B, finish_reason="length"), "Done."], tools=[echo])


@scene
def filtered_with_calls():
    return Scene(models=[calls(A, finish_reason="content_filter")], tools=[echo])


@scene
def calls_under_another_reason():
    return Scene(models=[calls(A, finish_reason="stop"), "Done."], tools=[echo])


@scene
def the_same_call_three_times():
    return Scene(models=[calls(A), calls(A), calls(A), "Done."], tools=[echo])


@scene
def the_same_call_after_its_refusal():
    return Scene(models=[calls(A), calls(A), calls(A), calls(A), "Done."], tools=[echo])


@scene
def the_same_call_in_one_answer():
    return Scene(models=[calls(A, A, A, A), "Done."], tools=[echo])


@scene
def the_same_call_of_a_repeatable_tool():
    polls = tool(repeatable=True, name="polls", description="Ask for the state.")(lambda: "not yet")
    return Scene(models=[calls(("polls", {}))] * 4 + ["Done."], tools=[polls])


@scene
def more_than_an_answer_may_ask():
    tables = {"limits": {"tool_calls_per_answer": 1}}
    return Scene(models=[calls(A, B), "Done."], tools=[echo], tables=tables)


@scene
def more_than_a_turn_may_ask():
    tables = {"limits": {"tool_calls_per_turn": 1}}
    return Scene(models=[calls(A, B), "Done."], tools=[echo], tables=tables)


@scene
def a_long_result():
    tables = {"tools": {"max_result_chars": 200}}
    return Scene(models=[calls(("echo", {"text": "long " * 60})), "Done."], tools=[echo], tables=tables)


@scene
def two_calls_with_one_name_for_the_model():
    dotted = tool(name="files.read", description="Read.", effect="read")(lambda: "read")
    return Scene(models=[calls(("files_read", {})), "Done."], tools=[dotted])


@scene
def tools_switched_off():
    return Scene(models=["Without."], tools=[echo], rule={"tools": {"enabled": False}})
