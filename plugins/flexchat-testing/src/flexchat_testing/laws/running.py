"""How a piece of a plugin behaves while it runs: in time, without blocking the event loop, light to import."""

from __future__ import annotations

import asyncio
import copy
import functools
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from flexchat.host import as_json
from flexchat.plugin import ToolDefinition
from flexchat_sdk import ToolEncoder

from .law import Conformance, canonical, law, require, show
from .samples import FIRST, TOOLS

# Modules that take a tenth of a second or more to import; every command of every user imports every plugin.
HEAVY = (
    *("PIL", "aiohttp", "anthropic", "boto3", "cattrs", "chromadb", "google.genai", "grpc", "httpx"),
    *("hypothesis", "jsonschema", "langchain", "lxml", "matplotlib", "numexpr", "numpy", "ollama"),
    *("openai", "pandas", "psycopg", "pydantic", "pymongo", "pytest", "re2", "redis", "requests", "scipy"),
    *("sklearn", "sqlalchemy", "tensorflow", "torch", "transformers", "yaml"),
)

# Python's words for a mistake in the code, useless to a model.
_OF_THE_CODE = (AttributeError, IndexError, KeyError, NameError, NotImplementedError, RecursionError, TypeError)
_BLOCKED_S = 0.2
_TRIES = 3


@functools.cache
def heavy_imports(module: str) -> tuple[str, ...]:
    """Return which heavy packages a module loads, tested in a separate Python without network access.

    Raises:
        AssertionError: The module cannot be imported.
    """
    code = (
        "import sys\nfrom flexchat_testing.sockets import forbid_sockets\n"
        f"with forbid_sockets():\n    import {module}\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    path = os.pathsep.join(part for part in sys.path if part)
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    require(done.returncode == 0, f"{module} cannot be imported: {_last_line(done.stderr)}")
    return tuple(done.stdout.split())


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it ended without a word"])[-1][:500]


def check_light(module: str) -> None:
    """Check that a plugin's module loads nothing heavy."""
    require(module, "plugin must name the module of the entry point: the one that holds the hooks")
    modules = heavy_imports(module)
    require(
        not modules,
        f"importing {module} imports {', '.join(modules)}: import them where they are used, since every command loads "
        "every plugin",
    )


class TooSlowError(AssertionError):
    """A call takes longer than its deadline."""


async def in_time(call: Callable[[], Awaitable[Any]], deadline_s: float, what: str) -> Any:
    """Return an awaitable's result, within a deadline.

    Raises:
        TooSlowError: It takes longer.
    """
    try:
        async with asyncio.timeout(deadline_s) as deadline:
            return await call()
    except TimeoutError:
        if deadline.expired():
            raise TooSlowError(f"{what} took longer than {deadline_s:g} s (deadline_s): bound its work") from None
        raise


async def check_loop_free(call: Callable[[], Awaitable[Any]], what: str) -> None:
    """Check that the event loop keeps running during a call; a busy machine gets several tries."""
    longest = 0.0
    for _ in range(_TRIES):
        longest = await _longest_gap(call)
        if longest < _BLOCKED_S:
            return
    raise AssertionError(
        f"{what} held the event loop for {longest:.2f} s: all other turns stand still meanwhile; make it a plain def, "
        "which runs in a thread, or await what it waits for"
    )


async def _longest_gap(call: Callable[[], Awaitable[Any]]) -> float:
    gaps = [0.0]

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        await call()
        await asyncio.sleep(0.01)
    finally:
        ticking.cancel()
    return max(gaps)


async def check_error(call: Callable[[], Awaitable[Any]], what: str) -> None:
    """Check that something fails, with a text a model can act on."""
    try:
        value = await call()
    except TooSlowError:
        raise
    except Exception as error:  # noqa: BLE001  a plugin may raise anything; which class it is, is the law
        _check_words(error, what)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError):
            raise
        raise AssertionError(f"{what} raised {type(error).__name__}: raise an Exception of your own") from None
    else:
        raise AssertionError(f"{what} must be refused, and returned {show(value)}")


def _check_words(error: Exception, what: str) -> None:
    text = str(error)
    require(
        type(error) not in _OF_THE_CODE,
        f"{what} raised {type(error).__name__}: {show(text)}; raise an error of your own that says what to do instead",
    )
    require(text.strip(), f"{what} raised {type(error).__name__} without a text: the model reads nothing else")
    require(len(text) <= 1000, f"{what} raised an error of {len(text)} characters; a sentence or two are read")
    sight = re.search(r"Traceback \(most recent|<[\w.]+ object at 0x|\.py\b", text)
    require(not sight, f"{what} shows the model the code: {show(text)}")


ACall = tuple[str, Callable[[], Awaitable[Any]]]
"""A call's description, and a function that makes it."""


class PluginConformance(Conformance):
    """The laws of everything that a plugin registers.

    Attributes:
        plugin: The module of the entry point.
    """

    plugin: ClassVar[str] = ""

    @law()
    def test_its_module_is_light(self) -> None:
        """Every command imports every plugin: what is heavy is imported where it is used."""
        check_light(self.plugin)


class CallConformance(PluginConformance):
    """The laws of everything that runs calls of tools.

    Attributes:
        deadline_s: Seconds one call may take.
    """

    deadline_s: ClassVar[float] = 5.0

    def _calls(self, *, refused: bool = False) -> list[ACall]:
        raise NotImplementedError

    def _bounded(self, what: str, call: Callable[[], Awaitable[Any]]) -> ACall:
        return what, lambda: in_time(call, self.deadline_s, what)

    @law()
    async def test_its_answer_is_json(self) -> None:
        """What a call returns goes to the model as JSON: no NaN, no bytes, no objects of its own."""
        for what, call in self._calls():
            try:
                as_json(value := await call())
            except ValueError as error:
                raise AssertionError(f"the answer to {what} must be JSON data: {error} ({show(value)})") from None

    @law("refuses")
    async def test_its_errors_are_for_the_model(self) -> None:
        """The model reads the error and tries again: it names the argument and its problem, not a place in the code."""
        for what, call in self._calls(refused=True):
            await check_error(call, what)

    @law()
    async def test_it_answers_in_time(self) -> None:
        """A deadline stops the waiting, not a thread: bound your own work."""
        for _, call in self._calls():
            await call()

    @law()
    async def test_it_leaves_the_loop_free(self) -> None:
        """An async def may not block the event loop; a plain def that context.call runs in a thread may."""
        for what, call in self._calls():
            await check_loop_free(call, what)


def check_encoder(name: str, encode: ToolEncoder) -> None:
    """Check that a tool format is pure: JSON that names every tool, the same each time, and its input left alone."""
    samples: tuple[tuple[ToolDefinition, ...], ...] = ((), (FIRST,), TOOLS)
    for tools in samples:
        before = copy.deepcopy(tools)
        encoded = encode(tools)
        require(tools == before, f"the encoder of {name} changed the definitions it was given")
        try:
            text = canonical(encoded)
        except (TypeError, ValueError) as error:
            raise AssertionError(f"the encoder of {name} returned something that is not JSON: {error}") from None
        require(text == canonical(encode(tools)), f"the encoder of {name} returned something else the second time")
        missing = [tool.name for tool in tools if f'"{tool.name}"' not in text]
        require(not missing, f"the encoder of {name} left out {', '.join(missing)}")
