"""Blocking functions run beside the loop, and whatever they raise arrives as an exception that can be handled."""

import asyncio
import contextvars
import threading

import pytest
from flexchat.plugin.foreign import STILL_RUNNING, run_in_thread

variable = contextvars.ContextVar("variable", default="")


async def test_it_runs_in_a_thread_of_its_own_with_the_callers_context():
    """A daemon, so that it never keeps a program from ending."""
    variable.set("here")

    def where():
        thread = threading.current_thread()
        return thread is threading.main_thread(), thread.daemon, variable.get()

    assert await run_in_thread(where) == (False, True, "here")


@pytest.mark.parametrize(
    "error", [StopIteration(), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()], ids=repr
)
async def test_what_means_something_else_on_the_event_loop_is_a_runtime_error(error):
    """A KeyboardInterrupt that a tool raises is no Ctrl-C; as it stands it would stop the event loop."""

    def work():
        raise error

    with pytest.raises(RuntimeError, match=f"the tool raised {type(error).__name__}$"):
        await run_in_thread(work)


async def test_who_stops_waiting_is_told_that_the_thread_goes_on():
    """A thread cannot be cancelled."""
    go = threading.Event()
    task = asyncio.create_task(run_in_thread(go.wait, 5))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    go.set()
    assert STILL_RUNNING in caught.value.__notes__
