"""The keys of a configuration: Config and its tables.

Field comments (metadata "help") become the descriptions in the JSON Schema that editors read.
"""

# ruff: noqa: RUF009  (key is attrs.field with a description)
from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import attrs

from ..domain import Reasoning, ResponseFormat, ToolChoice, ToolPrice, ToolRetry
from ..domain.keys import key, web_address
from ..domain.media import DEFAULT_MAX_BYTES


def own_keys(cls: type) -> frozenset[str]:
    """Return core's keys of a table; those of ``settings``, ``tables`` and ``sources`` belong to plugins."""
    return frozenset(field.name for field in attrs.fields(cls)) - {"settings", "tables", "sources"}


def _six_places(instance: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and math.isfinite(value) and Decimal(repr(value)) != round(Decimal(repr(value)), 6):
        raise ValueError(f"{attribute.name} may have 6 decimal places, got {value!r}")


def _rate(help: str) -> Any:
    return key(help, min=0, max=1_000_000, default=None, validator=_six_places)


@attrs.frozen(kw_only=True)
class PriceEntry:
    """One [llms.NAME.prices.MODEL] table: what a model costs, in US dollars per million tokens."""

    input: float | None = _rate("What it reads; together with output.")
    output: float | None = _rate("What it writes; together with input.")
    cached_input: float | None = _rate("What it reads from the service's cache. Default: as input.")
    cache_write: float | None = _rate("What the service caches. Default: as input.")
    reasoning: float | None = _rate("What it thinks. Default: as output.")
    window: int | None = key("Tokens it can read.", min=1, default=None)

    def __attrs_post_init__(self) -> None:
        others = self.cached_input, self.cache_write, self.reasoning
        if (self.input is None) != (self.output is None) or (self.input is None and any(o is not None for o in others)):
            raise ValueError("a price needs both input and output; window alone needs neither")


@attrs.frozen(kw_only=True)
class LLMEntry:
    """One [llms.NAME] table: a model's service. All other keys belong to the provider's plugin."""

    provider: str = key("Kind of service, as a plugin calls it: openai, scripted, rehearsal, …")
    default_model: str | None = key("Model for rules that do not name one.", default=None)
    description: str | None = key("For people; not used.", default=None)
    retries: int = key("How often a failed request is retried, if a retry may help.", min=0, max=10, default=2)
    retry_delay_ms: int = key("Wait before the first retry; doubles each time, with jitter.", min=0, default=500)
    max_parallel: int | None = key(
        "Requests it gets at a time; others wait, within their turn's time. Default: no limit.", min=1, default=None
    )
    tools: Literal["native", "prompted"] = key(
        "How models get tools: by the service's API, or prompted, in the prompt, for models without such an API.",
        default="native",
    )
    prices: Mapping[str, PriceEntry] = key(
        "Prices by model, in place of the known ones; * for all others: { input = 0, output = 0 }.", factory=dict
    )
    settings: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ModelChoice:
    """An LLM of the config and one of its models."""

    llm: str = key("Name of an entry in llms.")
    model: str | None = key("Model. Default: the entry's default_model.", default=None)


@attrs.frozen(kw_only=True)
class EmbeddingChoice:
    """What makes embeddings."""

    llm: str = key("Name of an entry in llms, or a provider that brings its own model: minilm.")
    model: str | None = key("Model. Default: the entry's default_model.", default=None)


@attrs.frozen(kw_only=True)
class StoreEntry:
    """One [stores.NAME] table: a document store. All other keys belong to its plugin."""

    provider: str = key("Kind of store, as a plugin calls it: sqlite, pgvector, memory, …")
    description: str | None = key("What is in it, for people and for the model that chooses.", default=None)
    collection: str | None = key("The only collection used. Default: all of them.", default=None)
    match_threshold: float | None = key(
        "Distance below which a hit is a match; a collection's own takes precedence. Default: what suits the "
        "embedding model, or 0.25.",
        min=0,
        max=2,
        default=None,
    )
    partial_threshold: float | None = key(
        "Distance below which a hit is a partial match; a collection's own takes precedence. Default: what suits the "
        "embedding model, or 0.5.",
        min=0,
        max=2,
        default=None,
    )
    top_k: int = key("Passages taken from each collection.", min=1, max=100, default=3)
    embedding: EmbeddingChoice | None = key(
        "What makes its vectors. Default: 'embedding', or a local model.", default=None
    )
    rerank: str | None = key("Kind of reranker for the best hits, as a plugin calls it.", default=None)
    settings: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class TopicTable:
    """[topic]: phase 1."""

    llm: str | None = key("Who detects topics: an entry in llms. Default: the one of intent.", default=None)
    model: str | None = key("Model. Default: the entry's default_model.", default=None)
    prompt: str | None = key(
        "Your own prompt template; {{currentTopic}}, {{conversationContext}}, {{userMessage}} are filled in.",
        default=None,
    )
    prompt_file: str | None = key("A file below this one's folder that holds the prompt.", default=None)
    max_tokens: int = key("Maximum length of the answer, in tokens.", min=1, default=200)

    @property
    def choice(self) -> ModelChoice | None:
        """Who is asked; None if not set."""
        return ModelChoice(llm=self.llm, model=self.model) if self.llm is not None else None


@attrs.frozen(kw_only=True)
class IntentTable:
    """[intent]: phase 3."""

    llm: str | None = key("Who detects intents: an entry in llms.", default=None)
    model: str | None = key("Model. Default: the entry's default_model.", default=None)
    detection: Mapping[str, str] = key("Categories: name and description.", factory=dict)
    max_tokens: int = key("Maximum length of the answer, in tokens.", min=1, default=50)

    @property
    def choice(self) -> ModelChoice | None:
        """The LLM and model to ask; None if no LLM is set."""
        return ModelChoice(llm=self.llm, model=self.model) if self.llm is not None else None


@attrs.frozen(kw_only=True)
class ImplementationEntry:
    """How a tool is run. All keys but type, timeout_ms and retry belong to that type."""

    type: str = key("Kind of implementation, as a plugin calls it: mock, builtin, internal, python, …")
    timeout_ms: int | None = key("Milliseconds a tool may take unless it sets its own limit.", min=1, default=None)
    retry: ToolRetry | None = key("How often the tool is tried, unless it says so itself.", default=None)
    settings: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ToolEntry:
    """One [[tools.registry]] table. With a name alone it switches on a tool that a plugin offers."""

    name: str = key("Name: letters, digits and _ . : / -, at most 128.")
    description: str | None = key("What the tool does, for the model.", default=None)
    type: Literal["function"] = key("Always function.", default="function")
    handler: str | None = key("Handler, if implementation.handler is not set.", default=None)
    parameters: Mapping[str, Any] | None = key("JSON Schema of the arguments; its root is an object.", default=None)
    implementation: ImplementationEntry | None = key("How it is run; leave out for a plugin's tool.", default=None)
    timeout_ms: int | None = key("Milliseconds it may take, each attempt of several.", min=1, default=None)
    retry: ToolRetry | None = key("How often it is tried when it fails for the moment.", default=None)
    exclusive: bool | None = key("Never runs at the same time as another call of the same answer.", default=None)
    repeatable: bool | None = key("May be called with the same arguments again and again.", default=None)
    effect: Literal["read", "idempotent", "write"] | None = key(
        "What running it changes: nothing (read), the same however often it runs (idempotent), or something that must "
        "not happen twice (write). Default: what the plugin says, or write.",
        default=None,
    )
    honours_key: bool | None = key(
        "Whether it passes the call's key to a service that acts once per key, so that it may be called again.",
        default=None,
    )
    verify: str | None = key(
        "Name of a tool that reports whether this one took effect, if nobody knows; its effect is read.", default=None
    )
    approve: bool | None = key("Whether a person must approve each call before it runs.", default=None)
    asks_first: bool | None = key("Whether it changes nothing before its last question to a person.", default=None)
    strict: bool | None = key("Whether the service must enforce the parameters.", default=None)
    price: ToolPrice | None = key("What a call costs: { usd = 0.02 }.", default=None)


@attrs.frozen(kw_only=True)
class EffectsTable:
    """[tools.effects]: the ledger of what tools change."""

    store: str | None = key(
        "Where it is kept: memory, sqlite, or the provider of conversations. Default: with the conversations if they "
        "are kept, otherwise in memory.",
        default=None,
    )
    lease_s: float = key(
        "Seconds without a renewal after which others may take over what a process was doing.", min=1, default=30.0
    )
    keep_days: int = key("Days for which arguments and results are kept.", min=0, default=30)


@attrs.frozen(kw_only=True)
class ToolSearch:
    """[tools.search]: which tools a model has to look for."""

    above: int = key(
        "Tools of a rule beyond which those not in its show are deferred: left out of requests until find_tools finds "
        "them.",
        min=0,
        default=40,
    )
    hits: int = key("Tools that one search loads.", min=1, max=20, default=5)
    max_found: int = key(
        "Most loaded tools in a request; beyond that, the one that was not used for longest is left out again.",
        min=1,
        default=20,
    )

    def __attrs_post_init__(self) -> None:
        if self.max_found < self.hits:
            raise ValueError(f"max_found must be at least hits ({self.hits}): one search would not fit")


@attrs.frozen(kw_only=True)
class SourceEntry:
    """One [[tools.TYPE]] table: a source of tools. All other keys belong to the type."""

    name: str | None = key(
        "What the source is called in commands and in flexchat.tools.lock: 1 to 64 letters, digits, _ and -. Default: "
        "its type.",
        default=None,
    )
    prefix: str = key("Put before the names of its tools.", default="")
    timeout_ms: int = key(
        "Milliseconds opening it and reading its tools may take; after that, the accepted tools are offered.",
        min=1,
        default=10_000,
    )


@attrs.frozen(kw_only=True)
class ToolsTable:
    """[tools]: what models may call, and how far they may go.

    Attributes:
        sources: Tables of tool sources, by their type.
    """

    enabled: bool | None = key("Switch for all tools. Default: on if the registry has entries.", default=None)
    registry: tuple[ToolEntry, ...] = key("The tools.", default=())
    on_error: Literal["stop", "leave out"] = key(
        "What to do about a tool that cannot be used: refuse to start, or leave it out with a note.", default="stop"
    )
    max_iterations: int = key(
        "Answers of the model that may ask for tools, per turn; 1 to 50.", min=1, max=50, default=5
    )
    default_timeout_ms: int = key("Milliseconds a tool may take unless it says otherwise.", min=1, default=30_000)
    max_result_chars: int = key(
        "Characters of a result that the model sees; the record keeps everything.", min=200, default=16_384
    )
    max_media_bytes: int = key(
        "Most bytes of the images, sounds and files of one result together; the rest is only described to the model.",
        min=0,
        default=DEFAULT_MAX_BYTES,
    )
    at_limit: Literal["sentence", "answer"] = key(
        "At the limit: a fixed sentence, or one more question to the model, without tools.", default="sentence"
    )
    error_detail: Literal["message", "incident"] = key(
        "What a model reads when a tool raises: the masked text, or an incident number for your log.",
        default="message",
    )
    effects: EffectsTable = key("The ledger of what tools change.", factory=EffectsTable)
    search: ToolSearch | None = key("Which tools a model has to look for.", default=None)
    apply_globally: bool = key("Offer the tools in every rule that does not set enabled = false.", default=False)
    lock: str | None = key(
        "File with the accepted tools of sources. Default: next to the configuration, flexchat.tools.lock for "
        "flexchat.toml.",
        default=None,
    )
    budget_tokens: int = key(
        "Estimated tokens of one rule's tools beyond which flexchat check notes it.", min=0, default=10_000
    )
    sources: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class RuleTools:
    """[responses.tools]: tools of one rule.

    Attributes:
        allowed_tools: None means all of the registry; an empty list is refused when the file is read.
    """

    enabled: bool = key("Whether this rule uses tools.", default=True)
    allowed_tools: tuple[str, ...] | None = key(
        "Names of the tools offered; SOURCE/* for all tools of a source. Default: all.", default=None
    )
    show: tuple[str, ...] | None = key(
        "Tools that are always in the request, as names or patterns: tickets_find*, SOURCE/*; the others are deferred. "
        "Default: all, up to tools.search.above.",
        default=None,
    )
    max_iterations: int | None = key("Overrides tools.max_iterations.", min=1, max=50, default=None)
    choice: ToolChoice = key("required: the model must call a tool before it may answer.", default="auto")
    parallel: bool | None = key(
        "Whether one answer may contain several calls. If left out, the service decides.", default=None
    )
    approve: bool = key("Whether a person must approve each call of every tool of this rule.", default=False)


@attrs.frozen(kw_only=True)
class ResponseRule:
    """One [[responses]] table. The first whose match fits the profile answers."""

    llm: str = key("Name of an entry in llms.")
    name: str | None = key("What the rule is called in output. Default: its number.", default=None)
    model: str | None = key("Model. Default: the entry's default_model.", default=None)
    prompt: str = key("System prompt; {{variables}} are filled in.", default="")
    prompt_file: str | None = key("A file below this one's folder that holds the prompt.", default=None)
    match: Mapping[str, Any] = key("Conditions on the profile; without any, the rule answers everything.", factory=dict)
    max_tokens: int | None = key("Maximum length of an answer, in tokens.", min=1, default=None)
    temperature: float | None = key("Sampling temperature, 0 to 2; 0 is a value.", min=0, max=2, default=None)
    top_p: float | None = key("Nucleus sampling, 0 to 1.", min=0, max=1, default=None)
    stop: tuple[str, ...] = key("Texts at which the answer ends.", default=())
    seed: int | None = key("Seed for repeatable answers, as far as the service supports it.", default=None)
    reasoning: Reasoning | None = key("How much the model thinks first.", default=None)
    response_format: ResponseFormat | None = key("The format of the answer.", default=None)
    extra_body: Mapping[str, Any] = key("Merged into every request of this rule, unchecked.", factory=dict)
    fallback: tuple[str, ...] = key(
        "Names of entries in llms that answer, with their default_model, when llm fails.", default=()
    )
    tools: RuleTools | None = key("Tools of this rule.", default=None)
    history: Mapping[str, Any] | None = key("Keys of [history] for this rule, in place of the table's.", default=None)


@attrs.frozen(kw_only=True)
class PromptEntry:
    """One [prompts.NAME] table: a prompt with a name, for flexchat ask, chat and batch: -t NAME."""

    description: str | None = key("What it is for, in lists.", default=None)
    prompt: str = key(
        "The message; {{message}} is what was typed or piped, which otherwise follows. --var sets other {{variables}}.",
        default="",
    )
    prompt_file: str | None = key("A file below this one's folder that holds the prompt.", default=None)
    system: str | None = key("System prompt, in place of the rule's (-s).", default=None)
    model: str | None = key("Who answers, as LLM/MODEL or PROVIDER/MODEL (-m).", default=None)
    tools: tuple[str, ...] = key("Names of the tools offered, in place of the rule's (-T).", default=())
    options: Mapping[str, Any] = key("Options of a rule or, with model, of the provider (-o).", factory=dict)
    schema: str | Mapping[str, Any] | None = key(
        'The form of the answer: a JSON Schema, a file with one, or fields as in "name, age int" (--schema).',
        default=None,
    )
    variables: Mapping[str, Any] = key("Variables that need not be given.", factory=dict)


@attrs.frozen(kw_only=True)
class PluginsTable:
    """[plugins]."""

    block: tuple[str, ...] = key("Names of plugins to leave out.", default=())
    prefer: tuple[str, ...] = key(
        "Names of plugins that win where several offer the same name, in order of precedence.", default=()
    )
    require: tuple[str, ...] = key(
        "Names of plugins that must be loaded, or nothing starts: those that check or forbid tool calls.", default=()
    )


@attrs.frozen(kw_only=True)
class ConversationsTable:
    """[conversations]: where conversations are kept. All other keys belong to the store."""

    provider: str = key("Kind of store: sqlite, or as a plugin calls it: postgresql.", default="sqlite")
    log: bool = key("Whether flexchat ask keeps every turn.", default=True)
    settings: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class QuestionsTable:
    """[questions]: what becomes of a tool's question that has no reply at once."""

    expires: str | None = key(
        'How long a question of a kept turn waits for a reply, its turn suspended: "30m", "2h", "7d". "0" for not at '
        'all. Default: "7d" for flexchat serve, otherwise "0".',
        default=None,
    )
    new_message: Literal["end", "reject", "queue"] = key(
        "What a new message does to a suspended turn of its conversation: ends it, is rejected, or waits for its end.",
        default="end",
    )
    webhook: str | None = key(
        "Where each question that waits is sent (Standard Webhooks); needs webhook_secret.", default=None
    )
    webhook_secret: str | None = key("Signs what is sent to webhook: whsec_ and Base64.", secret=True, default=None)
    public_url: str | None = key(
        "The server's address as people reach it, for links to questions: https://chat.example.com.",
        default=None,
        validator=attrs.validators.optional(web_address),
    )

    def __attrs_post_init__(self) -> None:
        try:
            _ = self.expires_s
        except ValueError as error:
            raise ValueError(f"expires is no duration: {error}") from None
        if (self.webhook is None) != (self.webhook_secret is None):
            raise ValueError("webhook and webhook_secret go together")

    @property
    def expires_s(self) -> float | None:
        """Return ``expires`` in seconds; None if it is not set."""
        return None if self.expires is None else duration_s(self.expires)


def duration_s(text: str) -> float:
    """Return a duration such as "2h" in seconds: a whole number with s, m, h, d or w; "0". Raises ValueError."""
    number, unit = text[:-1], _SECONDS.get(text[-1:])
    if text == "0":
        return 0.0
    if unit and number.isascii() and number.isdigit() and len(number) < 12 and int(number) * unit <= _MAX_DURATION_S:
        return float(int(number) * unit)
    what = 'a duration is a whole number with s, m, h, d or w, such as "2h", and at most 5200w'
    raise ValueError(f"{what}; got {text!r:.80}")


_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MAX_DURATION_S = 5_200 * 604_800  # a hundred years: dates beyond the year 9999 cannot be stored


def read_since(text: str) -> float:
    """Seconds from 1970 to the time a duration such as "7d" ago, or to a date, in UTC without an offset; at least 0.

    Raises:
        ValueError: The text is neither.
    """
    try:
        if text[-1:] in _SECONDS:
            return max(time.time() - duration_s(text), 0.0)
        at = datetime.fromisoformat(text)
        return max((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp(), 0.0)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r:.60} is no time: write 12h, 7d, 2w or a date, 2026-11-28") from None


@attrs.frozen(kw_only=True)
class LimitsTable:
    """[limits]: ceilings of one turn."""

    turn_timeout_ms: int = key("Milliseconds a turn may take.", min=1, default=120_000)
    phase_timeout_ms: int = key(
        "Milliseconds each of the first three phases may take; after that the turn continues without its result.",
        min=1,
        default=20_000,
    )
    question_timeout_ms: int = key(
        "Milliseconds a person may take to answer a tool's question; the turn's own time stands still meanwhile.",
        min=1,
        default=300_000,
    )
    message_chars: int = key("Characters of a user's message.", min=1, default=100_000)
    tool_calls_per_answer: int = key("Tool calls accepted from one answer of the model.", min=1, default=32)
    tool_calls_per_turn: int = key("Tool calls of a whole turn.", min=1, default=64)
    turn_cost: float | None = key(
        "US dollars a turn's models may cost: once that is reached, no model is asked again. Default: no limit.",
        default=None,
    )
    turn_tokens: int | None = key(
        "Tokens a turn's models may read and write: once that is reached, no model is asked again. Default: no limit.",
        min=1,
        default=None,
    )

    def __attrs_post_init__(self) -> None:
        if self.turn_cost is not None and not 0 < self.turn_cost < 1e9:
            raise ValueError("turn_cost must be an amount of US dollars above 0")


@attrs.frozen(kw_only=True)
class NetworkTable:
    """[network]: which addresses tools may reach. The services in llms and stores are not under it."""

    allow: tuple[str, ...] = key(
        "Addresses that tools may reach although they are not public: 127.0.0.1:8080, 10.0.0.0/8, "
        "intranet.example.com.",
        default=(),
    )
    domains: tuple[str, ...] | None = key(
        "The only hosts that tools may reach: api.example.com, *.example.org. Default: any.", default=None
    )


@attrs.frozen(kw_only=True)
class MediaTable:
    """[media]: attachments of messages, and how much of them is kept."""

    max_bytes: int = key("Most bytes of one attachment.", min=1, default=33_554_432)
    quota_bytes: int | None = key(
        "Most bytes of media that the conversations' store keeps for one tenant. Default: no limit.",
        min=0,
        default=None,
    )
    shrink: bool = key(
        "Whether images that are too large for the model are made smaller, instead of refused; needs Pillow.",
        default=False,
    )


@attrs.frozen(kw_only=True)
class Config:
    """A complete configuration.

    Attributes:
        tables: Tables read by plugins, by name: an instance of the class registered for each. Tables not in the file
            are not included.
    """

    llms: Mapping[str, LLMEntry] = key("Services that run models, by name.", factory=dict)
    responses: tuple[ResponseRule, ...] = key("Response rules, first match wins.", default=())
    tools: ToolsTable = key("Tools.", factory=ToolsTable)
    stores: Mapping[str, StoreEntry] = key("Document stores, by name.", factory=dict)
    variables: Mapping[str, Any] = key("Variables of prompts, by name: {{name}}.", factory=dict)
    prompts: Mapping[str, PromptEntry] = key("Prompts for the command line, by name.", factory=dict)
    topic: TopicTable = key("Phase 1, topic detection.", factory=TopicTable)
    intent: IntentTable = key("Phase 3, intent detection.", factory=IntentTable)
    embedding: EmbeddingChoice | None = key("What makes embeddings.", default=None)
    conversations: ConversationsTable | None = key(
        "Where conversations are kept. If left out, they are not kept.", default=None
    )
    questions: QuestionsTable = key("Questions of tools to people.", factory=QuestionsTable)
    media: MediaTable = key("Attachments of messages.", factory=MediaTable)
    plugins: PluginsTable = key("Plugins.", factory=PluginsTable)
    limits: LimitsTable = key("Ceilings of one turn.", factory=LimitsTable)
    network: NetworkTable = key("Which addresses tools may reach.", factory=NetworkTable)
    include: tuple[str, ...] = key(
        "More files of this configuration, in its folder or below: tables are merged, lists follow each other.",
        default=(),
    )
    tables: Mapping[str, Any] = attrs.field(factory=dict)
