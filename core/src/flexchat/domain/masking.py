"""Keeping secrets out of what a model, a user or a log reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "***"

_SHORTEST = 6  # a shorter "secret" would blot out ordinary words
_SECRET_NAME = re.compile(r"(?i)(key|token|secret|passw(or)?d|pwd|credential)s?$|^(auth|dsn)$|database_url$")
_NO_SECRETS = ("PWD", "OLDPWD")  # the shell's working folders, not passwords

# Words with which a sentence about a secret continues ("the token is missing"). The list is closed, because a rule such
# as "lower-case letters are no secret" would show "the password is swordfish".
_PROSE = (
    "a|absent|accepted|all|already|also|an|and|any|as|ask|at|authentication|bad|be|being|belongs|both|by|change|check|"
    "checked|configured|correct|denied|does|empty|encrypted|expired|for|from|give|given|has|hidden|if|in|incorrect|"
    "ignored|invalid|it|its|kept|limited|listed|longer|look|make|masked|missing|more|must|named|needed|never|neither|new|"
    "no|none|not|now|null|of|off|on|one|only|optional|or|otherwise|out|outdated|part|passed|present|provide|put|read|"
    "refused|rejected|remove|replace|required|revoked|same|schemes?|see|send|sent|set|shorter|shown|sign|still|store|"
    "stored|than|that|the|their|there|they|this|to|tokens?|too|try|undefined|unknown|unset|unused|unusable|use|used|"
    "valid|was|when|where|which|who|whose|with|without|write|written|wrong|you|your"
)
_REFERENCE = r"(?![\"']?\$\{\w+\}|(?:\.\.\.|…|true|false|null|none)(?![^\s,;&\"')}\]]))"
_NO_SECRET = rf"(?!(?-i:{_PROSE}|TOKEN|KEY|SECRET|PASSWORD|[Bb]asic|[Bb]earer)(?![\w!#$%&*+/<=>@^~-]))"
_NAMES = r"passw(?:or)?d|pwd|secret|token|api[_-]?key|access[_-]?key|authorization"
_SCHEME = r"(?:(?:bearer|basic)\s+)?"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"')}]+)"

# What unknown secrets look like. Each pattern starts with fixed letters: one that started with a
# repetition would take quadratic time on a long text, and error texts are long if a tool read a web page.
_PATTERNS = (
    (re.compile(r"(://[^\s:/@]*:)(?!PASSWORD@)[^\s@/]+(?=@)"), rf"\1{MASK}"),  # user:password@host
    (
        re.compile(
            rf"(?i)((?:{_NAMES})\b[\"']?\s*(?:=\s*|(?::|\bis\b:?)\s*{_SCHEME}{_NO_SECRET})){_SCHEME}{_REFERENCE}{_VALUE}"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(rf"(?i)(\bbearer\s+){_NO_SECRET}{_REFERENCE}[\w.~+/=-]{{6,}}"), rf"\1{MASK}"),
    (re.compile(r"\b(?:sk|pk|rk|ghp|gho|xox[abps])[-_][\w-]{8,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"), MASK),
)


_SECRET_KEY = re.compile(r"(?i)(passw(or)?d|pwd|secret|token|api[_-]?key|access[_-]?key|authorization)s?$")


class Mask:
    """Replaces secrets in a text with ***: the given ones, and what looks like one (password=…, user:password@…).

    Args:
        secrets: Values that must not be shown, nor their forms in a URL; those shorter than 6 characters are ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
        found = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, found))) if found else None

    def __call__(self, text: str) -> str:
        """Return the text without the secrets."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def knows(self, text: str) -> bool:
        """Return whether one of the given secrets is in the text."""
        return self._known is not None and self._known.search(text) is not None

    def data(self, value: Any) -> Any:
        """Return JSON data without secrets in its texts, and without texts under a key named like a secret."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {
                key: MASK if isinstance(item, str) and _SECRET_KEY.search(str(key)) else self.data(item)
                for key, item in value.items()
            }
        return [self.data(item) for item in value] if isinstance(value, (list, tuple)) else value


def _forms(secret: str) -> Iterable[str]:
    """Return a secret as it is written, and as it stands in URLs."""
    if secret.isalnum() and secret.isascii():
        return (secret,)
    raw = secret.encode("utf-8", "surrogatepass")
    return secret, quote(raw, safe=""), quote(raw), quote_plus(raw)


_remembered: set[str] = set()


def remember_secret(value: str) -> None:
    """Make sure that a stored key, which no variable or setting contains, is masked like those."""
    if len(value) >= _SHORTEST:
        _remembered.add(value)


def secrets_of_environment(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return the values of environment variables whose names mark them as secret (…_KEY, …_TOKEN, …).

    Without ``environ``, also the stored keys that this process has read.
    """
    variables = os.environ if environ is None else environ
    found = {
        value
        for name, value in variables.items()
        if _SECRET_NAME.search(name) and name not in _NO_SECRETS and len(value) >= _SHORTEST
    }
    return frozenset(found | _remembered if environ is None else found)
