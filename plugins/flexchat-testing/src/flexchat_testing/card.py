"""Tests an installed plugin and records which laws it keeps. Does not need pytest."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import tempfile
import traceback
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any, Literal

import attrs
from flexchat import __version__
from flexchat.host import ENTRY_POINT_GROUP, GATES_GROUP, PluginHost, did_you_mean, installed_plugins
from flexchat.plugin import FlexChatError

NEEDS_EXTRA = 'needs pip install "flexchat-testing[laws]"'
# What a plugin registers, and the class whose laws then apply.
_KITS = {
    "providers": "ProviderConformance",
    "handlers": "HandlerConformance",
    "implementation_types": "ImplementationConformance",
    "document_stores": "RetrieverConformance",
    "conversation_stores": "ConversationStoreConformance",
    "tool_sources": "ToolSourceConformance",
}
_OF_THE_EXTRA = ("aiohttp", "httpx", "hypothesis", "pytest", "yarl")


class UnknownPluginError(FlexChatError):
    """No plugin with that name is installed."""

    exit_status = 2


@attrs.frozen(kw_only=True)
class Verdict:
    """The outcome of one law.

    Attributes:
        law: Its name: "text arrives unchanged".
        status: "kept", "broken", "skipped" if it does not apply, "expected" if it is known to be broken.
        reason: Why, unless it is kept.
    """

    law: str
    status: Literal["kept", "broken", "skipped", "expected"]
    reason: str = ""


@attrs.frozen(kw_only=True)
class Chapter:
    """The laws of one kind: those of all plugins, or of one conformance class the plugin ships."""

    title: str
    verdicts: tuple[Verdict, ...]


@attrs.frozen(kw_only=True)
class Card:
    """The verdict of each law about a plugin.

    Attributes:
        package: Distribution and version.
        kit: The version of the FlexChat kit.
        note: A remark for the author.
    """

    plugin: str
    package: str
    kit: str
    chapters: tuple[Chapter, ...]
    note: str = ""

    def count(self, status: str) -> int:
        """Count the laws with this verdict."""
        return sum(verdict.status == status for chapter in self.chapters for verdict in chapter.verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Return the card as JSON data."""
        return {**attrs.asdict(self), "ok": not self.count("broken")}


def verify_plugin(name: str) -> Card:
    """Test an installed plugin: what it registers, and what its module ``conformance`` defines.

    Args:
        name: Of the plugin (its entry point), or of the package it comes with.

    Raises:
        UnknownPluginError: There is no such plugin.
    """
    entry = _entry_point(name)
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    try:
        plugin = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  a plugin may do anything at import; that is its verdict
        first = _import_failure("what it registers", "it loads", entry.module, error)
        return Card(plugin=entry.name, package=package, kit=__version__, chapters=(first,))
    alone = PluginHost()
    alone.register(plugin, entry.name, package)
    from .laws.registered import Registered, RegisteredConformance

    registered = Registered(name=entry.name, module=entry.module, alone=alone, all=installed_plugins())
    with _quiet_hypothesis():
        verdicts = tuple(verdicts_of(RegisteredConformance, lambda: RegisteredConformance(registered), entry.module))
        first = Chapter(title="what it registers", verdicts=verdicts)
        own, note = _own_chapters(entry, alone)
    return Card(plugin=entry.name, package=package, kit=__version__, chapters=(first, *own), note=note)


def verdicts_of(cls: type, make: Callable[[], Any], module: str = "") -> Iterator[Verdict]:
    """Check every law of a conformance class, each on a new instance.

    Args:
        module: The plugin's module, to name the line in its package that raised an error.
    """
    from .laws.law import expected_failure, laws_of

    for name, _ in laws_of(cls):
        reason = expected_failure(getattr(cls, name))
        words = name.removeprefix("test_").replace("_", " ")
        try:
            getattr(make(), name)()
        except unittest.SkipTest as skip:
            yield Verdict(law=words, status="skipped", reason=str(skip))
        except Exception as error:  # noqa: BLE001  whatever the plugin does is its verdict
            if isinstance(error, ModuleNotFoundError) and error.name in _OF_THE_EXTRA:
                yield Verdict(law=words, status="skipped", reason=NEEDS_EXTRA)
            elif reason:
                yield Verdict(law=words, status="expected", reason=reason)
            else:
                yield Verdict(law=words, status="broken", reason=_explain(error, module))
        else:
            yield Verdict(law=words, status="kept")


def _entry_point(name: str) -> importlib.metadata.EntryPoint:
    groups = (ENTRY_POINT_GROUP, GATES_GROUP)
    entries = {entry.name: entry for group in groups for entry in importlib.metadata.entry_points(group=group)}
    if name in entries:
        return entries[name]
    by_package = {entry.dist.name: entry for entry in entries.values() if entry.dist is not None}
    if name in by_package:
        return by_package[name]
    names = sorted(entries)
    hint = did_you_mean(name, [*names, *by_package])
    known_names = ", ".join(names) or "none"
    raise UnknownPluginError(f"no plugin is called '{name}'{hint or f' (installed: {known_names})'}")


def _own_chapters(entry: importlib.metadata.EntryPoint, alone: PluginHost) -> tuple[list[Chapter], str]:
    """Check each conformance class that the plugin ships; return the chapters, and a note if there are none."""
    package = entry.module.rpartition(".")[0] or entry.module
    place = f"{package}.conformance"
    try:
        if importlib.util.find_spec(place) is None:
            raise ModuleNotFoundError(name=place)
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name in _OF_THE_EXTRA:
            return [], f"the laws of {place} were not tried: that {NEEDS_EXTRA}"
        if error.name == place:
            return [], f"the package ships no module {place}{_advice(alone)}"
        return [_import_failure(place, "it can be imported", place, error)], ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever the plugin does is its verdict
        return [_import_failure(place, "it can be imported", place, error)], ""
    chapters = [
        Chapter(title=cls.__name__, verdicts=tuple(verdicts_of(cls, cls, entry.module))) for cls in _classes(module)
    ]
    return chapters, "" if chapters else f"{place} holds no conformance class{_advice(alone)}"


def _advice(alone: PluginHost) -> str:
    """Name the laws that were not checked, and the class to write for them."""
    kits = [kit for records, kit in _KITS.items() if getattr(alone, records).by_name]
    return ", so that only what it registers was tried" + (
        f": write a subclass of {' and '.join(kits)}" if kits else ""
    )


def _classes(module: types.ModuleType) -> list[type]:
    from .laws.law import Conformance

    own = [thing for thing in vars(module).values() if isinstance(thing, type) and thing.__module__ == module.__name__]
    classes = [each for each in own if issubclass(each, Conformance) and not each.__name__.startswith("_")]
    # A kit that the plugin offers to others is what its own class extends.
    return [each for each in classes if not any(each in other.__mro__[1:] for other in classes)]


def _import_failure(title: str, law: str, module: str, error: BaseException) -> Chapter:
    reason = f"importing {module} failed: {_format_error(error)}{_place(error, module)}"
    return Chapter(title=title, verdicts=(Verdict(law=law, status="broken", reason=reason),))


def _explain(error: Exception, module: str) -> str:
    """Format a broken law: the problem, the line in the plugin, the remedy and the law."""
    from .laws.law import DISAGREE, LAW

    is_finding = isinstance(error, AssertionError)
    what = (" ".join(str(error).split()) or "an assertion failed") if is_finding else _format_error(error)
    # If a law names what the plugin raised, that came from the plugin; other findings are about what it did not raise.
    place = _place(error.__context__ if is_finding else error, module)
    notes = [note for note in getattr(error, "__notes__", ()) if note == DISAGREE or note.startswith(LAW)]
    return "\n".join([what + place, *notes])


def _place(error: BaseException | None, module: str) -> str:
    """Return the innermost line of the plugin's package in a traceback, " (at acme_parrot/answer.py:12)", or ""."""
    package = module.partition(".")[0]
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__ if error is not None else None):
        name = frame.f_globals.get("__name__", "")
        if package and (name == package or name.startswith(f"{package}.")):
            file = frame.f_code.co_filename.replace(os.sep, "/")
            place = f" (at {file[file.rfind(f'/{package}') + 1 :]}:{line})"
    return place


def _format_error(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextlib.contextmanager
def _quiet_hypothesis() -> Iterator[None]:
    """Keep hypothesis's caches out of the user's working folder."""
    if "hypothesis" in sys.modules or importlib.util.find_spec("hypothesis") is None:
        yield
        return
    from hypothesis import configuration

    with tempfile.TemporaryDirectory() as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(None)
