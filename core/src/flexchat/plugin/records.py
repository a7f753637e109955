"""What plugins registered, by kind and name, with their summaries, and a report on each plugin."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from ..errors import PluginConflictError, nearest
from ..installing import how_to_install, package_with, packaged_names

MAX_SUMMARY_CHARS = 200  # of one line in ``flexchat plugins``


def summary_from(*names: str) -> str:
    """Return an attrs field for a record's summary: by default the first docstring line of the named fields' values."""
    factory = attrs.Factory(lambda record: _first_line(record, names), takes_self=True)
    field: str = attrs.field(default=factory)
    return field


def _first_line(record: object, names: tuple[str, ...]) -> str:
    for name in names:
        value = getattr(record, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue  # the docstring of a functools.partial is that of its class
        text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        line = " ".join((text or "").strip().partition("\n\n")[0].split()).removesuffix(".")
        if line and not line.startswith(f"{value.__name__}("):  # dataclasses write their signature
            return line if len(line) <= MAX_SUMMARY_CHARS else line[: MAX_SUMMARY_CHARS - 1] + "…"
    return ""


@attrs.frozen(kw_only=True)
class PluginReport:
    """Whether a plugin was loaded, and what it provides.

    Attributes:
        name: Its entry point's name.
        package: Distribution and version, "flexchat-openai 0.1.0".
        hooks: Names of the hooks it implements.
        provides: What it registered, one phrase each: "provider openai".
        reason: Why it is not active; empty if it is.
        gate: Whether nothing may start without it.
        load_ms: How long its import and registration took, in milliseconds.
    """

    name: str
    package: str
    status: Literal["active", "blocked", "failed"]
    hooks: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    reason: str = ""
    gate: bool = False
    load_ms: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data, without the time, which varies from run to run."""
        return attrs.asdict(self, filter=lambda field, _: field.name != "load_ms")


class Records:
    """What plugins registered of one kind, by name.

    If two plugins offer the same name, neither gets it, unless one of them is preferred; ``missing`` reports that when
    the name is requested.

    Args:
        preferred: Names of plugins that win over others offering the same name. They are loaded first, in this order.

    Attributes:
        conflicts: The two plugins that offer the same name, by that name.
        replaced: The same if one of them is preferred; the preferred plugin first.
    """

    def __init__(self, kind: str, reports: Mapping[str, PluginReport], preferred: Sequence[str] = ()) -> None:
        self.kind = kind
        self.by_name: dict[Any, Any] = {}
        self.conflicts: dict[Any, tuple[str, str]] = {}
        self.replaced: dict[Any, tuple[str, str]] = {}
        self._preferred = preferred
        self._owners: dict[Any, str] = {}
        self._reports = reports

    def add(self, name: Any, record: Any, plugin: str) -> bool:
        """Keep a record, unless a preferred plugin has one of that name; return whether it was kept.

        Raises:
            PluginConflictError: Another plugin offers that name; from now on neither has it.
        """
        owner = self._owners.setdefault(name, plugin)
        if owner == plugin and name not in self.by_name:
            self.by_name[name] = record
            return True
        if owner != plugin and owner in self._preferred:
            self.replaced[name] = (owner, plugin)
            return False
        self.by_name.pop(name, None)
        self.conflicts[name] = (owner, plugin)
        raise PluginConflictError(self.kind, spoken_name(name), (owner, plugin))

    def by_plugin(self) -> list[tuple[str, Any]]:
        """Return every record with its plugin's name, in order of these names."""
        records = [(self._owners[name], record) for name, record in self.by_name.items()]
        return sorted(records, key=lambda pair: pair[0])

    def package(self, name: Any) -> str:
        """Return the distribution and version of the plugin that offers a name; empty if there is none."""
        report = self._reports.get(self._owners.get(name, ""))
        return report.package if report is not None else ""

    def missing(self, name: Any) -> str:
        """Explain that a name is not offered: the reason, the names there are, and the remedy."""
        if name in self.conflicts:
            return str(PluginConflictError(self.kind, spoken_name(name), self.conflicts[name]))
        names = sorted(map(spoken_name, self.by_name))
        text = f"no {self.kind} is called '{spoken_name(name)}'"
        suggestion = nearest(spoken_name(name), names)
        if suggestion is None and package_with(self.kind, spoken_name(name)) is None:
            suggestion = nearest(spoken_name(name), packaged_names(self.kind))
        text += f" (did you mean '{suggestion}'?)" if suggestion is not None else ""
        suspects = self.suspects(name if suggestion is None or suggestion in names else suggestion)
        installed = f"installed: {', '.join(names) or 'none'}"
        return f"{text} ({'; '.join([installed, *suspects])})"

    def suspects(self, name: Any) -> list[str]:
        """List the possible causes of a missing name: inactive plugins, or a package to install."""
        package = package_with(self.kind, spoken_name(name))
        inactive = [r for r in self._reports.values() if r.status != "active"]
        from_package = [r for r in inactive if package and r.package.startswith(package + " ")]
        causes = [f"plugin '{r.name}' {r.status}: {r.reason}" for r in from_package or inactive]
        if package and not from_package:
            causes.append(f"it comes with the package {package}: {how_to_install(package)}")
        return causes


def spoken_name(name: Any) -> str:
    """Format the key of a record for people: a handler's has two parts."""
    return name if isinstance(name, str) else " ".join(name)
