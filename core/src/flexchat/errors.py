"""Every error FlexChat raises, each with its own class.

An error's text states what happened, where, and what to do. It never holds a key, a header or a whole request.
"""

from __future__ import annotations

import difflib
import heapq
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import attrs


def with_hint(text: str, hint: str | None) -> str:
    """Return a text followed by its hint in parentheses, for callers that show one text."""
    return f"{text} ({hint})" if hint else text


def json_error_message(error: json.JSONDecodeError) -> str:
    """Return the fault of a text that is not JSON, ready for a position to follow: "Unterminated string"."""
    return error.msg.removesuffix(" starting at")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known name, or an empty text."""
    close = nearest(name, known)
    return f" (did you mean '{close}'?)" if close is not None else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to this one; None if none is similar."""
    names = [n for n in itertools.islice(known, _MAX_NAMES) if isinstance(n, str)]
    close = closest(name, names)
    if not close:
        folded = {n.casefold(): n for n in names}
        close = [folded[n] for n in closest(name.casefold(), folded)]
    if not close:
        with_word = [n for n in names if name.casefold() in n.casefold().split("_")]  # model: default_model
        close = with_word if len(with_word) == 1 else []
    return close[0] if close else None


def closest(name: str, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known names most similar to this one, best first, as difflib does, but within a few milliseconds.

    If there are many names, only those with the most letter pairs in common with this one are compared, and none
    longer than 100 characters, which are hardly typing errors.

    Args:
        cutoff: How similar they must be, from 0 to 1.
    """
    if len(name) > _MAX_NAME_CHARS:
        return []
    names = [each for each in itertools.islice(known, _MAX_NAMES) if len(each) <= _MAX_NAME_CHARS]
    if len(names) > _MAX_COMPARED:
        pairs = {name[at : at + 2] for at in range(len(name) - 1)}
        names = heapq.nlargest(
            _MAX_COMPARED, names, lambda each: (sum(pair in each for pair in pairs), -abs(len(each) - len(name)))
        )
    return difflib.get_close_matches(name, names, n=count, cutoff=cutoff)


_MAX_NAMES, _MAX_COMPARED, _MAX_NAME_CHARS = 2_000, 100, 100


class FlexChatError(Exception):
    """The root of every error FlexChat raises on purpose.

    Attributes:
        exit_status: Exit status of a command that ends with it: 2 if the user's input cannot be used (names, options,
            the configuration), 1 if it was used and something failed.
        turn: The Turn that ended with it, up to that point: the question, the text so far, the calls that ran. None
            if no turn had started.
        public: The text without the operator's addresses, users and names; None if there are none in it.
    """

    exit_status: ClassVar[int] = 1
    turn: Any = None
    public: str | None = None

    @property
    def public_text(self) -> str:
        """The text for models and for those who use an application over the network."""
        return self.public or str(self)


class InputError(FlexChatError):
    """What the user wrote cannot be used: a name, an option, the configuration."""

    exit_status = 2


@attrs.frozen(kw_only=True)
class Problem:
    """One fault of a configuration.

    Attributes:
        path: Where in the configuration: ``responses[1].model``; empty for the whole file.
        text: The fault and the remedy, one sentence.
        source: The file, as the user named it; empty if there is none.
        line: Line in that file, from 1; None if unknown.
    """

    path: str
    text: str
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.source + (f":{self.line}" if self.line is not None else "")
        return ": ".join(part for part in (place, self.path, self.text) if part)


class ConfigError(InputError):
    """The configuration cannot be used.

    Attributes:
        problems: All faults, in the order of the file.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.source, p.line is None, p.line or 0)))
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[Problem, ...]]]:
        """Let one process send it to another (pickle)."""
        return type(self), (self.problems,)


class PluginError(InputError):
    """An installed plugin has a fault."""


class PluginLoadError(PluginError):
    """A plugin could not be loaded, and FLEXCHAT_STRICT_PLUGINS makes that an error.

    Attributes:
        plugin: Name of its entry point.
        reason: Why, one sentence.
    """

    def __init__(self, plugin: str, reason: str) -> None:
        self.plugin, self.reason = plugin, reason
        super().__init__(f"plugin {plugin}: {reason}")


class PluginConflictError(PluginError):
    """Two plugins offer something of the same kind under one name.

    Attributes:
        kind, name: The contested entry: "provider", "openai".
        plugins: The two, in the order they were loaded.
    """

    def __init__(self, kind: str, name: str, plugins: tuple[str, str]) -> None:
        self.kind, self.name, self.plugins = kind, name, plugins
        super().__init__(
            f"{kind} '{name}' is offered by two plugins, {plugins[0]} and {plugins[1]}; block one of them "
            f"(plugins.block in the config, FLEXCHAT_BLOCK_PLUGINS, or --no-plugin) or choose one with plugins.prefer"
        )


class ToolDefinitionError(FlexChatError):
    """This is not a tool definition. The texts are the specification's (requirements TC-27 to TC-29)."""


class ToolSourceError(FlexChatError):
    """A tool source cannot be opened, or its tools cannot be read; the text gives the reason."""


class ToolsLockError(FlexChatError):
    """The file with the accepted tools of sources cannot be read or written; the text has the reason and remedy."""


class UnknownToolSourceError(InputError):
    """No tool source of the configuration, or no tool of the source, has this name."""


class ToolChangedError(FlexChatError):
    """Tools of a source are no longer those that a person has seen and accepts; nothing was accepted.

    Attributes:
        tools: Their names.
    """

    def __init__(self, source: str, tools: tuple[str, ...]) -> None:
        self.tools = tools
        names = ", ".join(f"'{tool}'" for tool in tools[:5]) + (", …" if len(tools) > 5 else "")
        verb = "is" if len(tools) == 1 else "are"
        super().__init__(
            f"source '{source}': {names} {verb} not what you have seen, so nothing was accepted; look again"
        )


class ToolClashError(InputError):
    """Two tools of one name would be offered to a model, which could not choose between them.

    Attributes:
        name: The name.
        sources: The tool sources they come from; None for one given in code or in tools.registry.
    """

    def __init__(self, name: str, sources: tuple[str | None, str | None]) -> None:
        self.name, self.sources = name, sources
        one, two = (f"the tool source '{source}'" if source else "tools.registry" for source in sources)
        last = sources[1] or sources[0]
        super().__init__(
            f"two tools called '{name}' would be offered, of {one} and of {two}: give the source '{last}' a prefix "
            f'(prefix = "{last}_")'
        )


class DuplicateToolError(ToolDefinitionError):
    """A tool of that name is registered already (TC-28)."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Tool {name} already registered")


class ToolError(FlexChatError):
    """A tool cannot do its work. Tools, handlers and implementation types raise it; the model reads both texts.

    Attributes:
        text: The fault: the result's error, and this exception's own text.
        hint: Further help (the nearest name, the value received): the result's hint; None for none.
        retryable: Whether the same call may succeed in a moment, for tools that are to be retried. None leaves that to
            the error's cause: a broken connection or a timeout is.
        retry_after_s: Seconds to wait as requested by the service; None without such a request.
        nothing_done: Whether the tool certainly changed nothing, for any cause of the error, be it a timeout or
            a cancellation: then its effect is never unknown.
    """

    def __init__(
        self,
        text: str,
        *,
        hint: str | None = None,
        retryable: bool | None = None,
        retry_after_s: float | None = None,
        nothing_done: bool = False,
    ) -> None:
        self.text, self.hint = text, hint
        self.retryable, self.retry_after_s, self.nothing_done = retryable, retry_after_s, nothing_done
        super().__init__(text)

    def explained(self) -> str:
        """Return the text followed by the hint, for callers that show one text."""
        return with_hint(self.text, self.hint)


class ArgumentsError(ToolError):
    """Arguments that fit the schema are none that the tool's function can take; it did not run."""


class EffectUnknownError(ToolError):
    """Unknown whether a tool's effect took place: its service did not answer, or broke off in the middle.

    A tool raises it so that the effect is recorded as unknown, not as failed; a timeout or a broken connection that a
    tool lets through counts the same.
    """


class FetchError(ToolError):
    """A request sent with ToolContext.fetcher got no usable answer. A tool may let it through.

    Attributes:
        may_have_arrived: Whether the service may have got the request, and acted on it. If a tool that changes
            something lets such an error through, its effect is unknown.
        blames_service: Whether this counts as a failure of the service; None counts neither way.
    """

    blames_service: ClassVar[bool | None] = None
    retryable: bool = False

    def __init__(
        self,
        text: str,
        *,
        hint: str | None = None,
        retryable: bool | None = None,
        may_have_arrived: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        retryable = type(self).retryable if retryable is None else retryable
        unsent = not may_have_arrived
        super().__init__(text, hint=hint, retryable=retryable, retry_after_s=retry_after_s, nothing_done=unsent)
        self.may_have_arrived = may_have_arrived


class AddressRefusedError(FetchError):
    """The URL cannot be used, or leads to an address that may not be reached. Nothing was sent there."""


class FetchTimeoutError(FetchError):
    """No answer in time."""

    blames_service = True
    retryable = True


class FetchConnectionError(FetchError):
    """No connection was made, or it broke before the answer was whole."""

    blames_service = True
    retryable = True


class FetchAnswerError(FetchError):
    """The answer is unreadable or too long, or it redirects too often."""

    blames_service = True


class ChatRequestError(FlexChatError):
    """The caller's message or history cannot be used; the text names the fault."""


class MediaLimitError(ChatRequestError):
    """The model cannot be sent an attachment of the message; the text names it, the limit and its source."""


class ChatClosedError(FlexChatError):
    """The chat is closed, or was closed while the call ran; a closed chat cannot be opened again."""


class TurnDataError(FlexChatError):
    """Data that is read as a turn is none; the text names the place."""


class UnknownNameError(ChatRequestError):
    """The caller names something that does not exist: a document store, an LLM."""

    exit_status = 2


class ForgottenEventsError(FlexChatError):
    """The requested events of a turn are no longer kept: too many others followed."""


class UnknownToolFormatError(InputError):
    """No installed plugin offers that tool format (TC-35). ``known`` lists those that exist."""

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(
            with_hint(f"Unknown provider: {name}", f"known tool formats: {', '.join(known)}" if known else None)
        )


class UnknownLLMError(InputError):
    """A rule names an LLM that is not configured (TC-71). ``known`` lists those that are."""

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(with_hint(f"Provider {name} not found", f"configured: {', '.join(known)}" if known else None))


class NoMatchingRuleError(FlexChatError):
    """No response rule fits. Add one without ``match`` at the end: it answers all other messages."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            "No matching response rule found (missing fallback?): add a [[responses]] entry without 'match' at the end"
        )


class TurnTimeoutError(FlexChatError):
    """The turn was not finished in time."""

    def __init__(self, timeout_ms: int, during: str) -> None:
        self.timeout_ms, self.during = timeout_ms, during
        super().__init__(
            f"the turn was not finished after {timeout_ms} ms (during {during}); "
            f"raise limits.turn_timeout_ms in the config to allow more"
        )


class TurnLimitError(FlexChatError):
    """The turn has reached limits.turn_cost or limits.turn_tokens, or it is unknown whether it has."""


class NestedTurnError(FlexChatError):
    """A turn started by a tool would never end: it is nested too deep, or in the conversation of its own turn."""


class RequestRefusedError(FlexChatError):
    """A plugin refuses to let a request go to a model; see flexchat_before_model_request. Nothing was sent."""


class NotPermittedError(RequestRefusedError):
    """The principal's roles do not permit this; the text names what and why."""


class CeilingReachedError(RequestRefusedError):
    """A budget or a limit of the config has no room for this.

    Attributes:
        retry_after_s: Seconds until it may have room; None if waiting does not help.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LastRequestError(RequestRefusedError):
    """A plugin refuses a request that offers tools, so that the turn's answer can still be asked for, without them."""


class ResponseFormatError(FlexChatError):
    """The model's answer is not in the requested format, even after its fault was pointed out to the model.

    Attributes:
        content: Its last answer.
    """

    def __init__(self, problem: str, content: str) -> None:
        self.content = content
        super().__init__(f"the answer does not have the form asked for (response_format): {problem}")


class FilterError(InputError):
    """A metadata filter is invalid; the text names the fault and its place."""


class RetrievalError(FlexChatError):
    """A document store cannot do what was requested; the text names it and the reason."""


class UnknownCollectionError(RetrievalError):
    """A document store has no collection of this name."""

    exit_status = 2

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        known = sorted(known)
        listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        super().__init__(f"no collection is called '{name}'{did_you_mean(name, known)} (there are: {listed or 'none'})")
        self.name = name


class PathError(InputError):
    """A path cannot be used; the text names it and the reason.

    Attributes:
        path: The path as written.
        reason: Why, in one clause.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"'{path}': {reason}")


class StorageError(FlexChatError):
    """A database or its file cannot be used; the text names it, the reason, and the remedy."""


class KeyStorageError(StorageError):
    """A key cannot be stored or read; the text names it, the reason and the remedy, never its value."""

    exit_status = 2


class UnknownConversationError(InputError):
    """No conversation of this tenant has this id."""

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no conversation '{id}'")
        self.id = id


class UnknownEffectError(InputError):
    """No effect of this tenant has this key, or several keys begin with it; the text names the case."""

    def __init__(self, key: str, several: Sequence[str] = ()) -> None:
        some = ", ".join(several)
        none = f"there is no effect '{key}' (flexchat effects list shows them)"
        super().__init__(f"several effects begin with '{key}': {some}" if several else none)
        self.key = key


class CannotSettleError(InputError):
    """An effect cannot be settled by a person: it is not unknown; the text names its state."""


class UnknownTurnError(InputError):
    """No turn in the journal of this tenant has this id, or several ids start with it."""

    def __init__(self, id: str, *, several: bool = False) -> None:
        none = f"there is no turn '{id}' (flexchat turns list shows them)"
        super().__init__(f"several turns have ids that start with '{id}'" if several else none)
        self.id = id


class UnknownQuestionError(InputError):
    """No question of this tenant has this id, or several ids start with it."""

    def __init__(self, id: str, *, several: bool = False) -> None:
        none = f"there is no question '{id}' (flexchat approvals list shows those that are open)"
        super().__init__(f"several questions have ids that start with '{id}'" if several else none)
        self.id = id


class UnknownMediaError(InputError):
    """No medium of this tenant has this digest."""

    def __init__(self, sha256: str) -> None:
        super().__init__(f"there is no medium '{sha256:.64}'")
        self.sha256 = sha256


class MediaQuotaError(InputError):
    """A tenant's media would exceed its quota: ``media.quota_bytes``."""


class ClosedQuestionError(InputError):
    """A question can have no reply any more.

    Attributes:
        state: "replied", "expired" or "withdrawn".
        by: Who has replied; empty if nobody has, or the caller of the turn.
    """

    def __init__(self, id: str, state: str, by: str = "", at: str = "") -> None:
        whom = f" by {by}" if by else ""
        why = {"replied": f"it was answered{whom} at {at}", "expired": f"it expired at {at}"}
        super().__init__(f"the question '{id}' is closed: {why.get(state, 'its turn has ended')}")
        self.id, self.state, self.by = id, state, by


class InvalidReplyError(InputError):
    """A reply does not answer its question; the text names the fault."""


class TurnNotWaitingError(FlexChatError):
    """A turn cannot be resumed, since it is not interrupted.

    Attributes:
        state: Its actual state: "running", "done", "failed" or "cancelled"; "accepted" if an earlier turn of its
            conversation has not ended.
    """

    def __init__(self, id: str, state: str) -> None:
        why = f"it has ended ({state})"
        if state in ("running", "accepted"):
            why = "it is still running" if state == "running" else "it waits for an earlier turn of its conversation"
        super().__init__(f"the turn '{id}' is not interrupted: {why}")
        self.id, self.state = id, state


class StuckTurnError(FlexChatError):
    """An interrupted turn is not resumed: the configuration no longer fits it, or it was interrupted too often."""

    def __init__(self, id: str, why: str, *, then: str = "undo the change, or cancel the turn") -> None:
        super().__init__(f"the turn '{id}' cannot be resumed: {why}; {then}")
        self.id, self.why = id, why


class SuspendedTurnError(FlexChatError):
    """A conversation takes no new message while one of its turns waits for a reply (questions.new_message = "reject").

    Attributes:
        turn_id: The turn that waits.
    """

    def __init__(self, id: str) -> None:
        super().__init__(f"the turn '{id}' of this conversation waits for a reply: reply to its question, or cancel it")
        self.turn_id = id


class InterruptedTurnError(FlexChatError):
    """The turn did not reach its end: its process ended, or it was stopped in order to be resumed.

    Attributes:
        waits: Whether the turn can still be resumed.
    """

    def __init__(self, id: str, *, waits: bool = False, why: str = "") -> None:
        text = f"the turn was interrupted, and {'can be' if waits else 'was not'} resumed"
        super().__init__(f"{text}: {why}" if why else text)
        self.id, self.waits = id, waits


class LostTurnError(FlexChatError):
    """Another process has resumed this turn, or has ended it: this one's lease had expired."""

    def __init__(self, id: str) -> None:
        super().__init__(f"the turn '{id}' is no longer this process's: another one has taken it up, or has ended it")
        self.id = id


class KeyReusedError(InputError):
    """A caller's key stands for another request: each request needs its own."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key '{key}' has been used for another request: choose a new key for each request")
        self.key = key


class TurnRunningError(FlexChatError):
    """The turn that a caller's key stands for is still running in another process."""

    def __init__(self, id: str) -> None:
        super().__init__(f"the turn '{id}' of this key is still running in another process: ask again later")
        self.id = id


class FailedTurnError(FlexChatError):
    """The turn that a caller's key stands for has failed, and called tools that may have changed something.

    ``turn`` is that turn.
    """

    def __init__(self, id: str, why: str) -> None:
        super().__init__(
            f"the turn '{id}' of this key has failed ({why}), and may have changed something: "
            "see what it did, and choose a new key to try again"
        )
        self.id = id


class ForgottenAnswerError(FlexChatError):
    """The turn that a caller's key stands for has ended, and its answer is no longer kept."""

    def __init__(self, id: str) -> None:
        super().__init__(
            f"the turn '{id}' of this key has ended, and its answer is no longer kept: "
            "it does not run again; choose a new key for another turn"
        )
        self.id = id


MAX_RETRY_AFTER_S = 365 * 86_400.0
"""A service that asks for a longer wait is taken to ask for this one, even if the number has four hundred digits."""


class ProviderError(FlexChatError):
    """A model's service did not give an answer.

    Attributes:
        provider: The provider type's name, "openai".
        model: The model of the request; None if the error does not concern one.
        status: HTTP status; None if no HTTP answer came.
        code: The provider's own error code or type.
        retry_after_s: Seconds to wait as requested by the service.
        request_id: The service's name for the request; quote it when you ask its support.
        retryable: Whether asking the same again may help.
    """

    blames_service: ClassVar[bool] = False
    """Whether this counts as a failure of the service. A request it refuses shows that it works. So does 429: it is an
    answer, with a time to wait that retries respect; and it concerns one key or model, not the whole endpoint."""
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str | None = None,
        status: int | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.provider, self.model, self.status, self.code = provider, model, status, code
        self.retry_after_s, self.request_id = retry_after_s, request_id
        if retryable is not None:
            self.retryable = retryable


class ProviderAuthError(ProviderError):
    """The key is missing or was refused."""


class ProviderRequestError(ProviderError):
    """The service rejects our request. ``kind`` names the fault, if the service reports it."""

    def __init__(self, message: str, *, param: str | None = None, kind: str | None = None, **rest: object) -> None:
        super().__init__(message, **rest)  # type: ignore[arg-type]  # the keywords of ProviderError
        self.param, self.kind = param, kind


class ModelNotFoundError(ProviderRequestError):
    """The service has no such model."""


class ContextLengthError(ProviderRequestError):
    """The conversation is longer than the model can read."""


class ContentFilterError(ProviderRequestError):
    """The service refused the prompt. A filtered *answer* is a finish reason, not an error."""


class ProviderRateLimitError(ProviderError):
    """Too many requests, or the budget is used up.

    Attributes:
        kind: "rate" passes on its own and is retryable; "quota" needs a person.
    """

    def __init__(self, message: str, *, kind: str = "rate", **rest: object) -> None:
        super().__init__(message, **rest)  # type: ignore[arg-type]  # the keywords of ProviderError
        self.kind = kind
        self.retryable = kind == "rate"


class ProviderOverloadedError(ProviderError):
    """The service failed on its side (5xx, or an error in the middle of a stream)."""

    blames_service = True
    retryable = True


class ProviderTimeoutError(ProviderError):
    """No answer in time. Retryable only if nothing had arrived yet."""

    blames_service = True


class ProviderConnectionError(ProviderError):
    """The service could not be reached, or the connection broke."""

    blames_service = True


class ProviderProtocolError(ProviderError):
    """The answer is unreadable: a wrong base URL, a proxy's page, a broken stream."""

    blames_service = True
