"""Puts every other JSON type into every place of every recorded answer, and reports what the adapters make of it.

    python benchmarks/fuzz_types.py [--only openai,ollama] [--most 200] [--show 20]

Answers: the recordings beside the project (FLEXCHAT_SHARED or ../shared), where they are there, and those of the
packages' own conformance kits; whole and streamed. Each value of each of them is replaced by values of the other
types. Of the events of one stream that have the same shape (the same paths, types and kinds), the first, one in the
middle and the last are changed: the others would say the same, and each case reads the whole stream. Exit status 1 if
an answer passed with text or calls missing ("lost"), if something else than a ProviderError was raised ("foreign"), or
if a wrong type cost an answer in a place where neither text nor calls stand ("refused").

What carries text or calls is data, one WireFormat each, in fuzz_formats.py. ``--most`` takes at most so many answers a
format, and of a long stream the same number of events.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from flexchat import AnswerEnd, ProviderError, ReasoningDelta, TextDelta
from flexchat.plugin import ChatResult
from flexchat_sdk import ChatEvent

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fuzz_formats import FORMATS, Answer, WireFormat
from fuzz_langchain import LANGCHAIN

# Of every type a value that counts as true and one that does not.
VALUES = (None, True, False, 7, 0, 1.5, "x", "", [1], [], {"a": 1}, {})
RECORDINGS = Path(os.environ.get("FLEXCHAT_SHARED") or Path(__file__).resolve().parents[2] / "shared", "recordings")


@attrs.frozen
class Place:
    """A value in an answer: the event it stands in (0 for a whole answer), the steps to it, and its path in words."""

    event: int
    steps: tuple[str | int, ...]
    path: str


@attrs.define
class Report:
    """What came of one format; cases: (kind, path, wrong value, what happened)."""

    name: str
    answers: int = 0
    tally: Counter[str] = attrs.field(factory=Counter)
    cases: list[str] = attrs.field(factory=list)

    @property
    def is_fine(self) -> bool:
        """Whether all went as promised."""
        return not any(self.tally[kind] for kind in ("lost", "foreign", "refused"))


def said(events: list[ChatEvent]) -> tuple[str, list[tuple[str, Any]]]:
    """Return the text and the calls of an answer; the deltas must say the same."""
    result = events[-1].result  # type: ignore[union-attr]
    assert type(events[-1]) is AnswerEnd
    assert isinstance(result, ChatResult)
    text = "".join(part.text for part in result.message.parts if hasattr(part, "text") and _is_shown(part))
    streamed = "".join(event.text for event in events if type(event) is TextDelta)
    assert streamed in ("", result.content or ""), f"the deltas say {streamed!r}, the result {result.content!r}"
    assert not any(type(event) is ReasoningDelta and not isinstance(event.text, str) for event in events)
    calls = [(call.name, call.arguments) for call in result.tool_calls]  # None where they cannot be read
    return text, calls


def _is_shown(part: Any) -> bool:
    return type(part).__name__ in ("TextPart", "RefusalPart")


def places(value: Any, event: int = 0, steps: tuple[str | int, ...] = (), path: str = "") -> Iterator[Place]:
    """Yield every place in JSON data."""
    yield Place(event, steps, path)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, event, (*steps, key), f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from places(item, event, (*steps, at), f"{path}[]")


def at(value: Any, steps: tuple[str | int, ...]) -> Any:
    """Return the value at a place."""
    for step in steps:
        value = value[step]
    return value


def replaced(value: Any, steps: tuple[str | int, ...], new: Any) -> Any:
    """Return JSON data with another value at a place."""
    if not steps:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[steps[0]] = replaced(copy[steps[0]], steps[1:], new)
    return copy


def shape(value: Any, key: str = "") -> Any:
    """Return what makes two events alike: keys, types, what is empty, and the words that name a kind."""
    if isinstance(value, dict):
        return tuple((name, shape(item, name)) for name, item in value.items())
    if isinstance(value, list):
        return [shape(item) for item in value]
    return value if key == "type" else (type(value).__name__, not value)


def unlike(values: list[Any]) -> list[int]:
    """Return the numbers of the first, a middle and the last event of every shape, in order."""
    alike: dict[str, list[int]] = {}
    for number, value in enumerate(values):
        alike.setdefault(repr(shape(value)), []).append(number)
    return sorted({group[at] for group in alike.values() for at in (0, len(group) // 2, -1)})


def fuzz(form: WireFormat, answers: list[Answer], most: int = 10**9) -> Report:
    """Read every answer with every value in every place."""
    report = Report(form.name)
    for answer in answers:
        try:
            before = said(form.read(answer, None, None))
        except ProviderError:
            continue  # a recorded error
        report.answers += 1
        chosen = unlike(answer.values)
        for event in chosen[:: max(1, len(chosen) // most)]:
            for place in places(answer.values[event], event):
                for new in VALUES:
                    if not _same_type(new, at(answer.values[event], place.steps)):
                        kind, what = judged(form, answer, place, new, before)
                        report.tally[kind] += 1
                        if kind in ("lost", "foreign", "refused"):
                            report.cases.append(f"{kind:8} {place.path or '(root)'} = {new!r}: {what} [{answer.name}]")
    return report


def _same_type(new: Any, old: Any) -> bool:
    return type(new) is type(old)


def judged(form: WireFormat, answer: Answer, place: Place, new: Any, before: Any) -> tuple[str, str]:
    """Return what came of one replacement: "read", "error", "allowed", or what must not be."""
    verdict = "allowed" if form.allows(place.path, new) or form.is_free(place.path) else ""
    value = replaced(answer.values[place.event], place.steps, new)
    try:
        after = said(form.read(answer, place.event, value))
    except ProviderError as error:
        if verdict or form.carries(place.path):
            return "error", ""
        return "refused", str(error)[:200]
    except AssertionError as error:
        return verdict or "lost", str(error)[:200]
    except Exception as error:  # that is what is looked for
        return "foreign", f"{type(error).__name__}: {error}"[:200]
    if verdict:
        return verdict, ""
    if not _holds(after, before, may_be_cut=place.path in form.ends):
        return "lost", f"{before!r:.150} became {after!r:.150}"
    return "read", ""


def _holds(after: Any, before: Any, *, may_be_cut: bool) -> bool:
    """Say whether nothing is missing: every character in order, every call. A text in place of a null adds to it.

    Args:
        may_be_cut: A call without arguments may be one that is not run.
    """
    left = iter(after[0])
    names = [name for name, _ in after[1]]
    calls = all(
        call in after[1] or (call[0] in names and (call[1] is None or (may_be_cut and not call[1])))
        for call in before[1]
    )
    return calls and all(character in left for character in before[0])


def recorded(form: WireFormat) -> list[Answer]:
    """Return the recorded answers of a format; none where the recordings are not there."""
    found: list[Answer] = []
    for path in sorted(RECORDINGS.glob(form.recordings)) if form.recordings else ():
        for number, exchange in enumerate(json.loads(path.read_text("utf-8"))["exchanges"]):
            response = exchange["response"]
            if response["status"] == 200:
                found += form.answers(f"{path.name}#{number}", response["body"])
    return found


def main() -> int:
    """Run, print a line for each format, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="beginnings of formats' names, with commas between")
    parser.add_argument("--most", type=int, default=10**9, help="answers a format, and events of a stream")
    parser.add_argument("--show", type=int, default=20, help="cases to print a format")
    options = parser.parse_args()
    only = tuple(options.only.split(","))
    if not RECORDINGS.is_dir():
        print(f"no recordings at {RECORDINGS}: only the kits' own answers")
    row = "{:<18}{:>9}{:>12}{:>11}{:>11}{:>10}{:>8}{:>9}{:>9}"
    print(row.format("format", "answers", "cases", "read", "error", "allowed", "lost", "foreign", "refused"))
    is_fine = True
    for form in (*FORMATS, LANGCHAIN):
        if form.name.startswith(only):
            report = fuzz(form, [*form.own(), *recorded(form)][: options.most], options.most)
            kinds = [f"{report.tally[kind]:,}" for kind in ("read", "error", "allowed", "lost", "foreign", "refused")]
            print(row.format(report.name, report.answers, f"{report.tally.total():,}", *kinds), flush=True)
            for case in [*dict.fromkeys(report.cases)][: options.show]:
                print("   ", case)
            is_fine = is_fine and report.is_fine
    print("fine" if is_fine else "NOT FINE")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
