"""The provider "rehearsal", for trying tools and a config without an API key, and the text of its answers.

Answers summarize results of tools, or quote the document of the prompt that shares the most words with the question.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

import attrs
from flexchat.plugin import ChatResult, ToolCall
from flexchat_sdk import (
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    Message,
    ModelInfo,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    events_of,
)

from . import RehearsalConfig
from .plan import MAX_CHARACTERS, Step, Tool, plan, read_tools
from .values import content_stems

_MAX_CHARACTERS, _MAX_TOOLS = 600, 12
_json = functools.partial(json.dumps, ensure_ascii=False)


def from_results(results: Sequence[tuple[ToolCall | None, ToolMessage]], steps: Sequence[Step]) -> list[str]:
    """Compose one sentence per result, then one per request that no tool could handle."""
    return [*(_result(call, message) for call, message in results), *_unmet(steps)]


def from_plan(steps: Sequence[Step], tools: Sequence[Tool], *, may_call: bool) -> list[str]:
    """Explain a turn without calls: no tools, calls not allowed, no matching tool, or a missing argument."""
    if not tools:
        return ["No tool is offered, so there is nothing to call."]
    if not may_call:
        return ["No tool may be called now."]
    more = f" and {len(tools) - _MAX_TOOLS} more" if len(tools) > _MAX_TOOLS else ""
    offered = f"Tools offered: {', '.join(tool.name for tool in tools[:_MAX_TOOLS])}{more}."
    return [*_unmet(steps), *([] if any(step.tool for step in steps) else [offered])]


def _unmet(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        text = _shorten(step.text, 80)
        if step.tool is None:
            yield f'No tool fits "{text}".'
        elif step.missing:
            yield f'{step.tool} fits "{text}", but the message does not give: {", ".join(step.missing)}.'


def _result(call: ToolCall | None, message: ToolMessage) -> str:
    arguments = call.arguments if call is not None and call.arguments is not None else {}
    call_text, failed = f"{message.name} ({_format_pairs(arguments)})" if arguments else message.name, message.is_error
    try:
        content = json.loads(message.content)
    except (ValueError, RecursionError):
        return f"{call_text} {'failed' if failed else 'answered'}: {_shorten(message.content)}"
    envelope = content if isinstance(content, dict) and "success" in content else {}
    if envelope.get("success") is False:
        hint = f" ({envelope['hint']})" if envelope.get("hint") else ""
        return f"{call_text} failed: {_shorten(str(envelope.get('error', 'no reason given')) + hint)}"
    if failed:
        return f"{call_text} failed: {_shorten(message.content)}"
    value = _shorten(_format(_news(envelope.get("result", content), arguments)))
    return f"{call_text} answered {value}" + ("" if value.endswith((".", "…")) else ".")


def _news(content: Any, arguments: Mapping[str, Any]) -> Any:
    """Drop fields that repeat the arguments; if one field is left, return its value."""
    if not isinstance(content, dict):
        return content
    news = {k: v for k, v in content.items() if not (k in arguments and arguments[k] == v)} or content
    return next(iter(news.values())) if len(news) == 1 else news


def _format(value: Any) -> str:
    if isinstance(value, dict) and value:
        return _format_pairs(value)
    if isinstance(value, list) and len(value) > 1:
        return f"{len(value)} entries: {'; '.join(_json(item) for item in value[:_MAX_CHARACTERS])}"
    return _json(value)


def _format_pairs(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value if isinstance(value, str) else _json(value)}" for key, value in table.items())


def _shorten(text: str, limit: int = _MAX_CHARACTERS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


# The form FlexChat gives {{rag_context}}: "### TITLE (from COLLECTION)", "Source: FILE", a blank line, the text.
_PASSAGE = re.compile(
    r"(?:\A|(?<=\n))### (?P<title>[^\n]{1,500}?)(?P<from> \(from [^\n]{1,300}\))?"
    r"(?P<line>\nSource: (?P<source>[^\n]+))?\n\n"
)
_BETWEEN = "\n\n---\n\n"
_FENCE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_OWN_LINE = re.compile(r"\s*(?:[-*+>|]|\d+[.)]|#{1,6}\s)")
_HEADING, _TABLE_RULE = re.compile(r"\s*#{1,6}\s"), re.compile(r"[\s|:+-]*")
_MARK = re.compile(r"^[-*+>|]\s+|\s*\|$")
_END = re.compile(r"(?<=[.!?])\s+(?=[^\s\da-z])")

_MAX_PROMPT, _MAX_SENTENCE = 200_000, 400
_RANK_FACTOR = 0.7  # factor per preceding passage: the search results are sorted, best first
_TITLE_WEIGHT = 0.5  # weight of a word that occurs only in the title


@attrs.frozen(kw_only=True)
class Passage:
    """A document in a prompt."""

    title: str
    source: str | None
    text: str


def read_passages(prompt: str) -> tuple[Passage, ...]:
    """Parse the passages of a prompt, in order.

    A heading begins a passage only with a collection or a source, so that a prompt's own headings are ignored.
    """
    prompt = prompt[:_MAX_PROMPT]
    heads: list[re.Match[str]] = []
    for head in _PASSAGE.finditer(prompt):
        # Other headings are part of a passage's text.
        if (not heads or prompt.endswith(_BETWEEN, 0, head.start())) and (head["from"] or head["line"]):
            heads.append(head)
    ends = [*(head.start() - len(_BETWEEN) for head in heads), len(prompt)][1:]
    return tuple(
        Passage(title=head["title"], source=head["source"], text=prompt[head.end() : end])
        for head, end in zip(heads, ends, strict=True)
    )


def from_passages(question: str, passages: Sequence[Passage]) -> str:
    """Quote the sentence that best matches the question, with its source; or state that none matches."""
    stems_asked = content_stems(question)
    sentences = [(place, text) for place, passage in enumerate(passages) for text in _sentences(passage.text)]
    stems = [content_stems(text) for _, text in sentences]
    counts = Counter(word for one in stems for word in one)
    weights = {word: math.log(1 + len(sentences) / counts[word]) for word in stems_asked if counts[word]}
    titles = [content_stems(passage.title) for passage in passages]
    best, best_score = None, 0.0
    for (place, text), own in zip(sentences, stems, strict=True):
        score = sum(weights[word] for word in weights if word in own)
        score += _TITLE_WEIGHT * sum(weights[word] for word in weights if word in titles[place] - own) if score else 0
        if score * _RANK_FACTOR**place > best_score:
            best, best_score = (passages[place], text), score * _RANK_FACTOR**place
    if best is None:
        return "The passages found share no word with the question."
    passage, sentence = best
    return f"{sentence} (Source: {f'{passage.title}, {passage.source}' if passage.source else passage.title})"


def _sentences(text: str) -> Iterator[str]:
    """Yield quotable units: sentences, list entries and table rows; no code and no headings."""
    for block in re.split(r"\n\s*\n", _FENCE.sub("\n\n", text)):
        pieces: list[str] = []
        for line in block.splitlines():
            if pieces and not _OWN_LINE.match(line) and not _HEADING.match(pieces[-1]):
                pieces[-1] += " " + line.strip()
            else:
                pieces.append(line.strip())
        for piece, following in itertools.zip_longest(pieces, pieces[1:], fillvalue="."):
            if _HEADING.match(piece) or _TABLE_RULE.fullmatch(piece) or _TABLE_RULE.fullmatch(following):
                continue  # The row above a table's rule is its header.
            for sentence in _END.split(_MARK.sub("", piece)):
                yield sentence if len(sentence) <= _MAX_SENTENCE else sentence[: _MAX_SENTENCE - 1] + "…"


HONESTY = "(rehearsal model: it matches words and understands nothing)"  # ends every answer


class RehearsalProvider:
    """A provider that selects tools and composes answers by word matching."""

    name = "rehearsal"
    follows_instructions = False

    def __init__(self, config: RehearsalConfig | None = None) -> None:
        """Ignore the config, which has no settings."""

    def tool_format(self, model: str) -> str:
        """Return "rehearsal"."""
        return "rehearsal"

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Call the tools that match the last user message; once there are results, summarize them."""
        return answer(messages, model, options)

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Stream the answer of generate_chat word by word."""
        for event in events_of(answer(messages, model, options)):
            yield event

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the only model."""
        return (ModelInfo(id="rehearsal", name="Rehearsal (matches words)", capabilities=frozenset({"tools"})),)

    async def aclose(self) -> None:
        """Do nothing: the provider holds no resources."""


def answer(messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
    """Compute the rehearsal model's reply to a conversation."""
    last = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=-1)
    text = messages[last].content if last >= 0 else ""
    tools = read_tools(options.tools)
    steps = plan(str(text), tools)
    results = [m for m in messages[last + 1 :] if isinstance(m, ToolMessage)]
    if results:
        calls = {c.id: c for m in messages[last + 1 :] if isinstance(m, AssistantMessage) for c in m.tool_calls}
        return _text_result(from_results([(calls.get(r.tool_call_id), r) for r in results], steps), model)
    may_call = options.tool_choice != "none"
    new_calls = [ToolCall.from_object(step.tool, step.arguments) for step in steps if step.tool and not step.missing]
    if new_calls and may_call:
        return ChatResult(message=AssistantMessage(parts=tuple(new_calls)), finish_reason="tool_calls", model=model)
    passages = read_passages("\n\n".join(m.content for m in messages if isinstance(m, SystemMessage)))
    if passages and text:
        return _text_result([from_passages(text[:MAX_CHARACTERS], passages)], model)
    return _text_result(from_plan(steps, tools, may_call=may_call), model)


def _text_result(lines: Sequence[str], model: str) -> ChatResult:
    message = AssistantMessage(parts=(TextPart(text="\n".join([*lines, HONESTY])),))
    return ChatResult(message=message, finish_reason="stop", model=model)
