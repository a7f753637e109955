"""Turns that are kept, cancelled, closed, or take too long."""

from flexchat import StorageError, TextDelta
from flexchat_sdk import ContextLengthError, ProviderConnectionError
from flexchat_testing import calls

from .doubles import SAVE, A, Notebook, echo, hanging, in_notebook, save
from .recording import HANG, Scene, Stage, Streaming, scene

SOON = {"limits": {"turn_timeout_ms": 150}}


def kept(*replies, notebook=None, tables=None, **rest):
    """A scene whose turn is part of a conversation that is kept."""
    return Scene(
        models=[*replies],
        tables={"conversations": {"provider": "notebook"}, **(tables or {})},
        gates=[in_notebook(notebook or Notebook())],
        asked={"conversation": "c"},
        kept="c",
        **rest,
    )


def with_hanging_tool(make, *replies, **rest):
    """A scene with a tool that never ends."""
    stage = Stage()
    return make(*replies, stage=stage, tools=[hanging(stage), echo], **rest)


def plainly(*replies, **rest):
    return Scene(models=[*replies], **rest)


HANGS = ("hangs", {})


@scene
def kept_done():
    return kept(calls(A), "Done.", tools=[echo])


@scene
def kept_second_turn():
    return kept("One.", "Two.", before=1)


@scene
def kept_failed():
    return kept(ProviderConnectionError("gone"))


@scene
def kept_failed_in_the_middle():
    return kept(calls(SAVE, text="I save."), ProviderConnectionError("gone"), tools=[save])


@scene
def kept_and_not_replayed():
    return kept(ContextLengthError("too many tokens"))


@scene
def kept_after_one_that_is_not_replayed():
    return kept(ContextLengthError("too many tokens"), "Two.", before=1)


@scene
def kept_after_one_that_failed():
    return kept(ProviderConnectionError("gone"), "Two.", before=1)


@scene
def kept_cancelled():
    return kept([TextDelta(0, "We "), TextDelta(0, "must "), HANG], cancelled=True)


@scene
def kept_cancelled_in_a_tool():
    return with_hanging_tool(kept, calls(A, HANGS, text="I look."), cancelled=True)


@scene
def kept_too_late():
    return kept([TextDelta(0, "We "), HANG], tables=SOON)


@scene
def kept_nowhere():
    return Scene(models=["Never."], asked={"conversation": "c"})


@scene
def store_that_cannot_be_read():
    return kept("Never.", notebook=Notebook(reads=StorageError("the disk is gone")))


@scene
def store_that_cannot_be_written():
    return kept("Done.", notebook=Notebook(writes=StorageError("the disk is full")))


@scene
def store_that_cannot_be_written_of_a_failed_turn():
    return kept(ProviderConnectionError("gone"), notebook=Notebook(writes=StorageError("the disk is full")))


@scene
def cancelled_in_the_first_answer():
    return plainly(HANG, cancelled=True)


@scene
def cancelled_between_the_pieces():
    return plainly([TextDelta(0, "We "), HANG], cancelled=True)


@scene
def cancelled_in_a_tool():
    return with_hanging_tool(plainly, calls(HANGS), cancelled=True)


@scene
def cancelled_in_one_of_two_tools():
    return with_hanging_tool(plainly, calls(A, HANGS), cancelled=True)


@scene
def cancelled_in_the_second_answer():
    return plainly(calls(SAVE), HANG, tools=[save], cancelled=True)


@scene
def cancelled_in_the_topic():
    tables = {
        "topic": {"llm": "judge"},
        "responses": [{"llm": "bot", "model": "m", "prompt": "About {{topic}}."}],
    }
    return Scene(models={"bot": Streaming("Never."), "judge": Streaming(HANG)}, tables=tables, cancelled=True)


@scene
def too_late_in_the_answer():
    return plainly(HANG, tables=SOON)


@scene
def too_late_between_the_pieces():
    return plainly([TextDelta(0, "We "), HANG], tables=SOON)


@scene
def too_late_in_a_tool():
    return with_hanging_tool(plainly, calls(HANGS), "Sorry.", tables=SOON)


@scene
def too_late_in_the_second_answer():
    return plainly(calls(SAVE), HANG, tools=[save], tables=SOON)


@scene
def too_late_with_a_fallback():
    models = {"bot": Streaming(HANG), "spare": Streaming("I can.")}
    return Scene(models=models, rule={"fallback": ["spare"]}, tables=SOON)


@scene
def a_tools_own_time():
    tables = {"tools": {"default_timeout_ms": 20}}
    return with_hanging_tool(plainly, calls(A, HANGS), "It hangs.", tables=tables)
