"""Running foreign code: what it raises is its own trouble, and must not end a turn, a server or a program.

Tools, gates, event hooks, providers, stores, rerankers: any of them may raise something that is not an Exception, and
on an event loop KeyboardInterrupt and SystemExit end everything. Only these are meant for us: a cancellation of the
running task, the GeneratorExit of a coroutine being closed, and whatever a signal handler raised: a person's Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextvars
import dis
import functools
import signal
import threading
from collections.abc import Callable
from typing import Any


class CallSuspended(asyncio.CancelledError):
    """Ends the run of a tool call that waits for a reply; it runs again once there is one.

    A CancelledError, so that a tool's clean-up runs and nothing takes it for a failure.

    Attributes:
        question: The id of the question.
    """

    def __init__(self, question: str) -> None:
        super().__init__(f"the call waits for the reply to the question {question}")
        self.question = question


class ForeignError(RuntimeError):
    """Replaces a BaseException that is not an Exception; the text names it, and it is the cause."""


class contained:
    """A context manager around foreign code: what it raises is an Exception, or meant for us.

    Do not yield inside it: a generator closed there would seem to raise GeneratorExit itself.

    Raises:
        ForeignError: Instead of a BaseException that was not meant for us.
        asyncio.CancelledError: The task was cancelled meanwhile, whatever that code made of it.
    """

    __slots__ = ("_cancelled", "_task")

    def __enter__(self) -> None:
        try:
            self._task = asyncio.current_task()
        except RuntimeError:  # no event loop runs in this thread
            self._task = None
        self._cancelled = self._task.cancelling() if self._task is not None else 0

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        cancelled = self._task is not None and self._task.cancelling() > self._cancelled
        if cancelled and not isinstance(error, asyncio.CancelledError):
            raise asyncio.CancelledError from error
        if error is None or isinstance(error, Exception):
            return
        if isinstance(error, asyncio.CancelledError) and self._task is not None:
            is_intended = cancelled  # if the task was already being cancelled, only another cancellation is
        elif isinstance(error, GeneratorExit):
            is_intended = _running_task() is not self._task
        else:
            is_intended = is_meant(error)
        if not is_intended:
            raise ForeignError(error_text(error)) from error


def is_meant(error: BaseException) -> bool:
    """Return whether this did not come from foreign code.

    That is: the task is cancelled, its coroutine is being closed, or a signal handler raised it.
    """
    if isinstance(error, asyncio.CancelledError):
        return isinstance(error, CallSuspended) or is_being_cancelled()
    if isinstance(error, GeneratorExit):
        return _running_task() is None
    return isinstance(error, KeyboardInterrupt | SystemExit) and _was_raised_by_signal(error)


def is_being_cancelled() -> bool:
    """Return whether the running task is being cancelled; for use when a CancelledError was caught.

    A tool or a plugin that awaits its own cancelled task gets a CancelledError not meant for the turn: that is its
    trouble and must not end the turn.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs here, so nothing cancels
        return False
    return task is None or task.cancelling() > 0


def error_text(error: BaseException) -> str:
    """Describe an exception for people and models: never empty, and never raises."""
    if isinstance(error, SystemExit):
        return f"it tried to end the program ({error_name(error)})"
    if isinstance(error, asyncio.CancelledError):
        return f"it was cancelled, though the turn was not ({error_name(error)})"
    if not isinstance(error, Exception):
        return f"it raised {error_name(error)}"
    # A KeyError's text is just the key.
    return error_name(error) if isinstance(error, KeyError) else _text(error) or type(error).__name__


def error_name(error: BaseException) -> str:
    """Return an exception's class and text: ``KeyError: 'city'``."""
    text = _text(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as broken:  # its class may be as broken as the code that raised it
        if is_meant(broken):
            raise
        return ""
    return text if text.strip() else ""


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return None


def _was_raised_by_signal(error: BaseException) -> bool:
    """Return whether a signal handler raised it, at an arbitrary point of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    codes = {_code(handler) for handler in handlers} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        innermost, trace = trace, trace.tb_next
        if trace is None and isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
            # Python's own handler leaves no frame: the exception appears at any instruction but a raise.
            code = innermost.tb_frame.f_code.co_code
            return code[innermost.tb_lasti] != dis.opmap["RAISE_VARARGS"]
    return False


def _code(handler: Any) -> Any:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return getattr(getattr(handler, "__func__", handler), "__code__", None)


STILL_RUNNING = "it may still be running"  # note on the CancelledError of a function whose thread keeps running


async def run_in_thread(
    function: Callable[..., Any], *args: Any, late: Callable[[Any, BaseException | None], None] | None = None
) -> Any:
    """Run function(*args) in its own thread and return its result.

    Args:
        late: Called on the event loop with the function's result or exception, if the wait for it has ended by then
            and the loop still runs.

    Not asyncio.to_thread: its pool has a handful of workers, so a few hanging tools would block all others, and it
    joins them at exit, so a tool that never returns would keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            if late is not None:
                late(result, error)
        elif error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function, *args)
        except (StopIteration, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError) as caught:
            # A future refuses the first; the others have a meaning on the event loop, but here they are just errors.
            error = RuntimeError(f"the tool raised {error_name(caught)}")
        except BaseException as caught:  # noqa: BLE001  raised where the tool is awaited
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            pass  # the loop is closed, and with it every wait for this thread

    thread = threading.Thread(target=work, name=f"flexchat {getattr(function, '__name__', 'tool')}", daemon=True)
    thread.start()
    try:
        return await done
    except asyncio.CancelledError as cancelled:
        cancelled.add_note(STILL_RUNNING)  # the wait ends here, the thread does not
        raise
