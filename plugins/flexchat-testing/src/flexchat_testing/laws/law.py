"""Laws: each is one method and one statement; how they are run, skipped and protected."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import tempfile
import unittest
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from flexchat.host import did_you_mean
from flexchat_sdk import ProviderError

from ..sockets import forbid_sockets

Check = Callable[..., Any]


class _Closable(Protocol):
    async def aclose(self) -> None: ...


T = TypeVar("T", bound=_Closable)
E = TypeVar("E", bound=Exception)

_OPENED = ("store", "ledger", "source", "provider")
LAW = "the law: "
"""Start of a note that states the law; others' notes are not ours to show."""
DISAGREE = "that was an answer it must read: what conformance.py writes and what the provider reads are not one format"
"""Noted if a provider refuses an answer that the kit considers good."""


def law(
    *needs: str, draw: Callable[[], Mapping[str, Any]] | None = None, examples: int = 25, empty: bool = False
) -> Callable[[Check], Callable[[Any], None]]:
    """Make a method a law: it holds for every plugin that has the capabilities it needs.

    The method may be a coroutine function; it runs on its own event loop, and reaches only this machine. So a law needs
    no pytest plugin, and runs even without pytest. Its parameters: ``stream`` is each of ``ways`` in turn, ``folder`` a
    new directory, ``store``, ``ledger``, ``source`` or ``provider`` what ``opened`` yields, and any other is drawn.

    Args:
        needs: Words of the class's ``capabilities``.
        draw: Returns hypothesis strategies for the method's arguments.
        examples: How many values are drawn; fewer, at least ten, in a hypothesis profile with under 100 examples.
        empty: Whether to use ``opened(empty=True)``.
    """

    def decorate(check: Check) -> Callable[[Any], None]:
        parameters = inspect.signature(check).parameters
        opened_name = next((name for name in _OPENED if name in parameters), None)

        async def run(self: Any, arguments: dict[str, Any]) -> None:
            async with contextlib.AsyncExitStack() as stack:
                if opened_name is not None:
                    opening = self.opened(empty=True) if empty else self.opened()
                    arguments[opened_name] = await stack.enter_async_context(opening)
                if "folder" in parameters:
                    arguments["folder"] = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                await check(self, **arguments)

        def once(self: Any, **drawn: Any) -> None:
            for way in [{"stream": stream} for stream in self.ways] if "stream" in parameters else [{}]:
                if inspect.iscoroutinefunction(check):
                    asyncio.run(run(self, {**way, **drawn}))
                else:
                    check(self, **way, **drawn)

        def check_law(self: Any) -> None:
            missing = [word for word in needs if word not in self.supports]
            if missing:
                meaning = self.capabilities.get(missing[0], "")
                raise unittest.SkipTest(
                    f'does not apply: supports lacks "{missing[0]}"' + (f" ({meaning})" if meaning else "")
                )
            statement = f"{LAW}{_on_one_line(check.__doc__ or '')}"
            try:
                with forbid_sockets():
                    if draw is None:
                        once(self)
                    else:
                        _for_all(draw(), lambda **drawn: once(self, **drawn), examples)
            except (unittest.SkipTest, NotImplementedError):
                raise
            except SystemExit as error:
                ended = f"it ended the program (SystemExit: {error}): a plugin raises an error of its own instead"
                failure = AssertionError(ended)
                failure.add_note(statement)
                raise failure from error
            except Exception as error:
                if isinstance(error, ProviderError):
                    error.add_note(DISAGREE)
                error.add_note(statement)
                raise

        functools.update_wrapper(check_law, check, updated=())
        del check_law.__wrapped__  # type: ignore[attr-defined]  # or pytest takes the parameters for fixtures
        check_law.is_law = True  # type: ignore[attr-defined]
        return check_law

    return decorate


@contextlib.asynccontextmanager
async def opened_in(make: Callable[[Path], T], folder: Path | None = None) -> AsyncIterator[T]:
    """Open what *make* returns for a folder, or for a new one, and close it at the end."""
    with tempfile.TemporaryDirectory() as new:
        async with contextlib.aclosing(make(folder or Path(new))) as opened:
            yield opened


def require(truth: object, text: str) -> None:
    """Check a condition; *text* describes the problem and the expectation for the plugin's author.

    Raises:
        AssertionError: The condition is false.
    """
    if not truth:
        raise AssertionError(text)


def expect(actual: object, expected: object, what: str) -> None:
    """Check that two values are equal; *what* names the value or states the expectation for the plugin's author.

    Raises:
        AssertionError: They differ.
    """
    require(actual == expected, f"{what}: expected {show(expected)}, got {show(actual)}")


@contextlib.contextmanager
def raising_only(*errors: type[Exception], what: str) -> Iterator[None]:
    """Make any other exception than these the failure of a law; *what* names what raised it."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (AssertionError, *errors)):
            raise
        allowed = " or ".join(each.__name__ for each in errors)
        others = f", not {allowed}" if allowed else ""
        raise AssertionError(f"{what} raised {type(error).__name__}{others}: {error}") from error


async def refused(call: Awaitable[Any], errors: type[E] | tuple[type[E], ...], what: str) -> E:
    """Check that awaiting *call* raises one of *errors* with a text, and return the error.

    Args:
        what: The request, for the author: "query of an unknown collection".

    Raises:
        AssertionError: Nothing was raised, or another error.
    """
    kinds: tuple[type[E], ...] = errors if isinstance(errors, tuple) else (errors,)
    try:
        with raising_only(*kinds, what=what):
            value = await call
    except kinds as error:
        require(str(error).strip(), f"{what}: {type(error).__name__} without a text")
        return error
    names = " or ".join(each.__name__ for each in kinds)
    raise AssertionError(f"{what} must raise {names}, and returned {show(value)}")


def show(value: object, most: int = 300) -> str:
    """Format a value for an error text, in at most *most* characters."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 2] + " …"


def canonical(value: Any) -> str:
    """Return JSON data as a text that is equal only for the same data: true is not 1.

    Raises:
        TypeError, ValueError: It is not JSON data.
    """
    return json.dumps(value, sort_keys=True, allow_nan=False, default=_plain)


class Conformance:
    """The laws of one kind of plugin. Subclass it in a test module; a class whose name begins with Test is collected.

    Attributes:
        supports: The plugin's capabilities, each a key of ``capabilities``. Laws that need others are skipped.
        capabilities: The capabilities that the kit distinguishes, with their meanings.
    """

    supports: ClassVar[frozenset[str] | set[str]] = frozenset()
    capabilities: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        for word in sorted(cls.supports):
            if word not in cls.capabilities:
                names = ", ".join(cls.capabilities) or "none"
                raise TypeError(
                    f"{cls.__name__}.supports has '{word}', which is not a capability"
                    f"{did_you_mean(word, cls.capabilities)} (known: {names})"
                )

    @law()
    def test_no_law_is_replaced(self) -> None:
        """Mark a law that does not hold yet with pytest.mark.xfail(reason="…"); never rewrite it.

        If a law does not apply, take the capability it needs out of ``supports``.
        """
        for name, own in laws_of(type(self)):
            current = inspect.getattr_static(type(self), name, None)
            if current is not own and expected_failure(current) is None:
                raise AssertionError(
                    f"{type(self).__name__} replaces the law {name}: mark it pytest.mark.xfail(reason=…) instead, "
                    f"and let it call super().{name}()"
                )


def laws_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the laws a class inherits from the kit, by name, in the order they are written."""
    laws: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if getattr(value, "is_law", False) and name not in laws:
                laws[name] = value
    yield from laws.items()


def expected_failure(method: object) -> str | None:
    """Return the reason of a pytest.mark.xfail on a method; None without one."""
    marks = getattr(method, "pytestmark", ())
    for mark in marks if isinstance(marks, list | tuple) else (marks,):
        if getattr(mark, "name", "") == "xfail" and mark.kwargs.get("reason"):
            return str(mark.kwargs["reason"])
    return None


def _for_all(strategies: Mapping[str, Any], check: Check, examples: int) -> None:
    from hypothesis import HealthCheck, given, settings

    def case(**drawn: Any) -> None:
        check(**drawn)

    config = settings(
        # In proportion to a profile with fewer examples than hypothesis has by default.
        max_examples=min(examples, max(examples * settings().max_examples // 100, 10)),
        deadline=None,
        database=None,
        derandomize=True,  # the same verdict every time
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    config(given(**strategies)(case))()


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON data")
