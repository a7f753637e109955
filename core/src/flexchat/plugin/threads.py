"""Running a blocking function outside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from .foreign import error_name

STILL_RUNNING = "it may still be running"
"""Note on the CancelledError of a function whose thread keeps running."""


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
