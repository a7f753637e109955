"""Code of others ends nothing but itself; a cancellation and a person's Ctrl-C get through it."""

import asyncio
import gc
import os
import signal
import subprocess
import sys

import pytest
from flexchat.plugin.foreign import ForeignError, contained, error_text


class Odd(BaseException):
    """Not an Exception."""


class Unspeakable(Exception):
    def __str__(self):
        raise KeyboardInterrupt


ODD = [
    Odd("x"),
    GeneratorExit("x"),
    BaseExceptionGroup("x", [Odd(), KeyboardInterrupt()]),
    SystemExit("x"),
    KeyboardInterrupt("x"),
    asyncio.CancelledError("x"),
]


def raising(error):
    raise error


@pytest.mark.parametrize("error", ODD, ids=repr)
def test_what_is_not_an_exception_becomes_one(error):
    """Outside of an event loop, as at a plugin's import; the cause is kept."""
    with pytest.raises(ForeignError, match=type(error).__name__) as caught, contained():
        raising(error)

    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", ODD, ids=repr)
async def test_on_the_event_loop_too(error):
    """In the task that called it, which goes on."""

    async def foreign():
        await asyncio.sleep(0)
        raise error

    with pytest.raises(ForeignError, match=type(error).__name__), contained():
        await foreign()


async def test_exceptions_pass_as_they_are():
    """Their meaning is the caller's business."""
    with pytest.raises(ValueError, match=r"^x$"), contained():
        raise ValueError("x")


@pytest.mark.parametrize("made_of_it", [None, ValueError("x"), Odd(), BaseExceptionGroup("x", [Odd()])], ids=repr)
async def test_a_cancellation_gets_through_whatever_is_made_of_it(made_of_it):
    """Swallowed, or turned into something else while cleaning up."""
    begun = asyncio.Event()

    async def foreign():
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if made_of_it is not None:
                raise made_of_it from None

    async def ours():
        with contained():
            await foreign()

    task = asyncio.create_task(ours())
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_coroutine_that_is_closed_ends():
    """Nothing is reported as ignored."""
    seen = []
    hook, sys.unraisablehook = sys.unraisablehook, seen.append

    async def ours():
        with contained():
            await asyncio.Event().wait()

    async def begin():
        work = ours()
        work.send(None)
        return work

    try:
        loop = asyncio.new_event_loop()
        left = loop.run_until_complete(begin())
        loop.close()
        left.close()
        del left
        gc.collect()
    finally:
        sys.unraisablehook = hook
    assert seen == []


PROGRAM = """
import asyncio, os, signal, sys, time
from flexchat.plugin.foreign import contained

async def foreign():
    os.kill(os.getpid(), signal.{signal})
    for _ in range(1000):
        time.sleep(0.01)

async def main():
    with contained():
        await foreign()

{before}
try:
    {run}
except {expected}:
    print("interrupted")
"""
RUNS = {
    "Ctrl-C": ("", "asyncio.new_event_loop().run_until_complete(main())", "SIGINT", "KeyboardInterrupt"),
    "a handler of its own": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))",
        "asyncio.run(main())",
        "SIGTERM",
        "SystemExit",
    ),
}


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("which", RUNS)
def test_what_a_signal_raises_gets_through(which):
    """A person's Ctrl-C in the middle of foreign code, and sys.exit() in a program's own handler."""
    before, run, number, expected = RUNS[which]
    program = PROGRAM.format(before=before, run=run, signal=number, expected=expected)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=20)

    assert done.stdout == "interrupted\n", done.stderr


async def test_a_raise_in_foreign_code_is_not_a_ctrl_c():
    """Also where Python's own handler is in force, which leaves no trace of itself."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(ForeignError), contained():
            raising(KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such city"), "no such city"),
        (KeyError("city"), "KeyError: 'city'"),
        (ValueError(), "ValueError"),
        (ValueError(" \n"), "ValueError"),
        (Unspeakable(), "Unspeakable"),
        (Odd("x"), "it raised Odd: x"),
        (SystemExit(3), "it tried to end the program (SystemExit: 3)"),
        (asyncio.CancelledError(), "it was cancelled, though the turn was not (CancelledError)"),
    ],
)
def test_every_exception_can_be_told(error, text):
    """Never nothing, and never another exception."""
    assert error_text(error) == text


async def test_in_a_task_that_is_being_cancelled_only_another_cancellation_is_meant():
    """Its own clean-up runs on in it, and what is called there may await a cancelled task of its own."""
    cleaned = []

    async def clean_up():
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(ForeignError), contained():
                raise asyncio.CancelledError
            cleaned.append("foreign")
            with contained():
                await asyncio.Event().wait()

    task = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    assert cleaned == ["foreign"]
    assert task.cancelled()
