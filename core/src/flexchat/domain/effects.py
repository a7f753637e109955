"""Effects: calls of tools that change something, with their outcomes. The ledger keeps a row per effect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import attrs

EffectState = Literal["claimed", "pending", "done", "failed", "unknown"]
"""claimed: its tool is about to run, or running; pending: its tool has changed nothing yet, and runs again once its
question has a reply; done: it took effect; failed: the tool said that it did not; unknown: nobody can tell, until a
person looks and settles it."""

ClaimOutcome = Literal["yours", "ended", "running", "lost", "other", "unapproved"]

MAX_ARGUMENTS_CHARS = 4_000  # how many characters of an effect's arguments are kept, for people

MAX_RESULT_CHARS = 65_536  # how many characters of an effect's result are kept

MAX_HANDLE_CHARS = 4_000  # how long an effect's handle may be


@attrs.frozen(kw_only=True)
class EffectCall:
    """A call about to have an effect.

    Attributes:
        key: Identifies this very call: the effect_key of its place.
        conversation: None if its turn is not kept.
        turn: Empty outside turns.
        place: Where in its turn: "2.0" is the first call of the model's second answer, "2.0/1" the second call made by
            that call's tool. Outside turns, "key:" and the key the caller gave, or a random one.
        digest: Equal for equal calls: the arguments_digest, of the tool's name with its source.
        arguments: As JSON, for people: secrets masked, and cut to MAX_ARGUMENTS_CHARS.
        honours_key: Whether its tool passes the key to a service that acts once per key, so that it may be repeated
            with the same key.
    """

    key: str
    tenant: str
    conversation: str | None
    turn: str
    place: str
    tool: str
    digest: str
    arguments: str = ""
    honours_key: bool = attrs.field(default=False, converter=bool)


@attrs.frozen(kw_only=True)
class Effect(EffectCall):
    """The ledger's row of an effect.

    Attributes:
        owner: The process that claimed it last. Empty if its tool was never started: the claim was released, and
            anyone may claim it next.
        fence: How often it has been claimed; only the newest claim may record how it ended.
        result: The ToolResult as JSON (result_to_json), secrets masked, at most MAX_RESULT_CHARS long. None if there
            is none, or if its text has been forgotten.
        claimed_at, ended_at: ISO 8601, UTC; ended_at is empty while it is claimed.
        settled_by: The person who settled it; empty if that was not necessary.
        note: Why it is unknown, or the remark made when it was settled.
        handle: The tool's record of a job it started elsewhere, as JSON: a later call checks that job.
            None if it has recorded none.
    """

    state: EffectState
    owner: str
    fence: int = 1
    result: str | None = None
    claimed_at: str = ""
    ended_at: str = ""
    settled_by: str = ""
    note: str = ""
    handle: str | None = None


@attrs.frozen
class Claim:
    """The outcome of claiming an effect.

    Attributes:
        outcome: "yours": run the tool, then finish; if the row has a handle, only to check the job it started.
            "ended": it is done, failed or unknown. "running": its owner is alive. "lost": its owner has died, or its
            lease has expired. "other": the same key belongs to another tool or other arguments. "unapproved": its
            approval does not exist, is of something else, or was used for another call; nothing is claimed.
        effect: The row, in its current state; of an unapproved call, as it would be.
    """

    outcome: ClaimOutcome
    effect: Effect


def effect_key(tenant: str, conversation: str | None, turn: str, place: str) -> str:
    """Return the key of the call at a place of a turn: 64 hexadecimal digits, the same whenever it is computed."""
    return _sha256(json.dumps([tenant, conversation, turn, place], separators=(",", ":")))


def arguments_digest(tool: str, arguments: Any) -> str:
    """Return 64 hexadecimal digits that are equal for equal calls.

    Arguments are equal if they mean the same as JSON: the order of keys does not matter, 1 and 1.0 are the same number,
    and so are 0 and -0.0. Half of a surrogate pair is text like any other.

    Raises:
        ValueError: The arguments are not JSON data: NaN, a set, a key that is not text, nested too deeply.
    """
    try:
        return _sha256(_canonical_json([tool, _same_numbers(arguments)]))
    except RecursionError:
        raise ValueError("the arguments are nested too deeply") from None
    except TypeError as error:
        raise ValueError(f"the arguments are not JSON data: {error}") from None


_canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_EXACT = 2.0**53  # up to here every whole number has its own float


def _same_numbers(value: Any) -> Any:
    """Return JSON data in which equal numbers are written the same way."""
    if type(value) is float:
        return int(value) if abs(value) < _EXACT and value.is_integer() else value
    if isinstance(value, Mapping):
        return {_text(key): _same_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_same_numbers(item) for item in value]
    return value


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r:.40} is not text")
    return key


def _sha256(text: str) -> str:
    import hashlib  # loads OpenSSL: only when something is changed

    return hashlib.sha256(text.encode()).hexdigest()
