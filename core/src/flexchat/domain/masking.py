"""Keeping secrets out of the texts that models, users and logs read."""

from __future__ import annotations

import base64
import functools
import os
import re
import string
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

MASK = "***"

_MIN_CHARS = 6  # a shorter "secret" would blot out ordinary words
_MAX_ADDED = 1_000
_PLAIN = frozenset(string.ascii_letters + string.digits)
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

# Forms of unknown secrets: texts of which one must occur, without regard to case, and the pattern. The search for
# fixed texts takes a tenth of the pattern's time, and results of tools have megabytes. Each pattern starts with fixed
# letters: one that started with a repetition would take quadratic time on a long text. A pattern
# without regard to case finds U+0130 and U+0131 as i: its texts have none.
_PATTERNS = (
    (("://",), re.compile(r"(://[^\s:/@]*:)(?!PASSWORD@)[^\s@/]+(?=@)"), rf"\1{MASK}"),  # user:password@host
    (
        ("passw", "pwd", "secret", "token", "ap", "access", "author"),
        re.compile(
            rf"(?i)((?:{_NAMES})\b[\"']?\s*(?:=\s*|(?::|\bis\b:?)\s*{_SCHEME}{_NO_SECRET})){_SCHEME}{_REFERENCE}{_VALUE}"
        ),
        rf"\1{MASK}",
    ),
    (("bearer",), re.compile(rf"(?i)(\bbearer\s+){_NO_SECRET}{_REFERENCE}[\w.~+/=-]{{6,}}"), rf"\1{MASK}"),
    (
        ("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp", "gho", "xox", "akia", "aiza"),
        re.compile(r"\b(?:sk|pk|rk|ghp|gho|xox[abps])[-_][\w-]{8,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"),
        MASK,
    ),
)


_SECRET_KEY = re.compile(r"(?i)(passw(or)?d|pwd|secret|token|api[_-]?key|access[_-]?key|authorization)s?$")


class Mask:
    """A filter that replaces secrets in a text with ***: the given ones, and likely ones (password=…, user:password@…).

    Args:
        secrets: Values that must not be shown, in whatever form: verbatim, escaped as in JSON, URLs or HTML,
            or in Base64. Those shorter than 6 characters are ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._added: deque[str] = deque()
        self._forms: tuple[_Form, ...] = ()
        self._take(secrets)

    def __call__(self, text: str) -> str:
        """Return the text without the secrets."""
        text = self.mask_given(text)
        folded = text.casefold()
        for probes, pattern, replacement in _PATTERNS:
            for probe in probes:  # written out: any() of a generator takes twenty times as long
                if probe in folded:
                    text = pattern.sub(replacement, text)
                    break
        return text

    def add(self, secret: str) -> None:
        """Mask one more value from now on, such as a token fetched for a request; the last 1,000 of them are kept."""
        if len(secret) < _MIN_CHARS or secret in self._secrets:
            return
        self._added.append(secret)
        if len(self._added) > _MAX_ADDED:
            old = self._added.popleft()
            self._secrets.discard(old)
            self._forms = tuple(form for form in self._forms if form.secret != old)
        self._take([secret])

    def mask_given(self, text: str) -> str:
        """Return the text without the given secrets; likely ones stay."""
        for form in self._forms:
            if form.probe in text:
                text = form.pattern.sub(MASK, text)
        return text

    def mask_given_data(self, value: Any) -> Any:
        """Return JSON data without the given secrets in its texts and keys."""
        if isinstance(value, str):
            return self.mask_given(value)
        if isinstance(value, Mapping):
            return {
                self.mask_given(key) if isinstance(key, str) else key: self.mask_given_data(item)
                for key, item in value.items()
            }
        return [self.mask_given_data(item) for item in value] if isinstance(value, (list, tuple)) else value

    def knows(self, text: str) -> bool:
        """Return whether one of the given secrets is in the text."""
        return bool(self._forms) and any(form.probe in text and form.pattern.search(text) for form in self._forms)

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

    def _take(self, secrets: Iterable[str]) -> None:
        new = {secret for secret in secrets if len(secret) >= _MIN_CHARS} - self._secrets
        self._secrets |= new
        forms = [*self._forms, *(form for secret in new for form in _forms(secret))]
        self._forms = tuple(sorted(forms, key=lambda form: -len(form.secret)))  # longest first: one may hold another


class _Form(NamedTuple):
    """A way to write a secret: a text with the probe in it is worth the search for the pattern."""

    secret: str
    probe: str
    pattern: re.Pattern[str]


@functools.lru_cache(maxsize=2 * _MAX_ADDED)
def _forms(secret: str) -> tuple[_Form, ...]:
    forms = []
    password = "" if "//" in secret else secret.partition(":")[2]  # of USER:PASSWORD
    for value in dict.fromkeys((secret, password)):
        if len(value) >= _MIN_CHARS:
            runs = re.findall(r"[A-Za-z0-9]+", value)
            forms.append(_Form(secret, max(runs, key=len, default=""), re.compile(_escaped(value))))
            forms += [_Form(secret, core, re.compile(re.escape(core))) for core in _base64_cores(value)]
    return tuple(forms)


def _escaped(secret: str) -> str:
    """Return a pattern for a secret of which any character but letters and digits may be escaped."""
    runs = re.findall(r"[A-Za-z0-9]+|\\+|[^A-Za-z0-9\\]", secret)
    return "".join(_escaped_run(run, before[:1]) for before, run in zip(["", *runs], runs, strict=False))


def _escaped_run(run: str, before: str) -> str:
    if run[0] == "\\":
        # Possessive, since the next character may begin with backslashes, and two repetitions that share them take
        # exponential time: so these are matched here, and the next character needs none of its own.
        count = len(run)
        return rf"(?:\\{{{count},{8 * count + 8}}}+|(?:%(?:25)*5[Cc]){{{count}}})"
    if run[0] in _PLAIN:
        return run
    slashes = r"\\{0,8}" if before == "\\" else r"\\{1,8}"
    first, *rest = (f"u{unit}" for unit in re.findall("....", run.encode("utf-16-be", "surrogatepass").hex()))
    escape = slashes + first + "".join(rf"\\{{1,8}}{unit}" for unit in rest)
    percent = "".join(f"%(?:25)*{byte:02x}" for byte in run.encode("utf-8", "surrogatepass"))
    python = rf"{slashes}(?:x{ord(run):02x}|u{ord(run):04x}|U{ord(run):08x})"
    letters = {" ": r"\+", **{char: slashes + name for char, name in zip("\n\r\t\b\f", "nrtbf", strict=True)}}
    names = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
    html = f"&(?:{names.get(run, '#')}|#0*{ord(run)}|#x0*{ord(run):x});"
    ways = [rf"\\{{0,8}}{re.escape(run)}", f"(?i:{escape}|{python}|{percent}|{html})"]
    return f"(?:{'|'.join([*ways, *([letters[run]] if run in letters else [])])})"


def _base64_cores(secret: str) -> set[str]:
    """Return the Base64 shared by all texts with the secret in them, for each place within a group of three bytes."""
    raw, cores = secret.encode("utf-8", "surrogatepass"), set[str]()
    for before, skipped in ((0, 0), (1, 2), (2, 3)):
        whole = base64.b64encode(bytes(before) + raw).decode()
        core = whole[skipped : (before + len(raw)) * 8 // 6]
        if len(core) > _MIN_CHARS:
            cores |= {core, core.replace("+", "-").replace("/", "_")}
    return cores


_remembered: set[str] = set()


def remember_secret(value: str) -> None:
    """Make sure that a stored key, which no variable or setting contains, is masked like those."""
    if len(value) >= _MIN_CHARS:
        _remembered.add(value)


def secrets_of_environment(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return the values of environment variables whose names mark them as secret (…_KEY, …_TOKEN, …).

    Without ``environ``, also the stored keys that this process has read.
    """
    variables = os.environ if environ is None else environ
    values = {
        value
        for name, value in variables.items()
        if _SECRET_NAME.search(name) and name not in _NO_SECRETS and len(value) >= _MIN_CHARS
    }
    return frozenset(values | _remembered if environ is None else values)
