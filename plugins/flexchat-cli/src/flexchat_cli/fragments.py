"""-f FILE|URL: texts that stand before the message."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from flexchat.domain.masking import Mask
from flexchat.errors import FetchError

from . import standard_input
from .terminal import Terminal
from .usage import FAILED, UsageError

MAX_BYTES = 32 * 1024 * 1024
_TIMEOUT_S = 30.0


class FragmentError(UsageError):
    """An address did not answer with a text."""

    exit_status = FAILED


async def read_fragments(names: Sequence[str], terminal: Terminal) -> list[str]:
    """Return the texts of files, of http(s) addresses, and of standard input for "-".

    Raises:
        UsageError: A file is missing, or not text.
        FragmentError: An address does not answer with a text.
    """
    texts = []
    for name in names:
        if name == "-":
            texts.append(standard_input.read_text(terminal))
        elif name.lower().startswith(("http://", "https://")):
            texts.append(standard_input.decoded(await _fetched(name), f"-f {name}"))
        else:
            texts.append(standard_input.read_text_file(name, f"-f {name}", most=MAX_BYTES))
    return [text.strip() for text in texts]


async def _fetched(url: str) -> bytes:
    from flexchat.domain.fetching import FetchRequest
    from flexchat_sdk.http.late_fetcher import LateFetcher

    # The address was typed by the user, so it need not be public; what it redirects to must be.
    fetcher = LateFetcher((urlsplit(url).netloc.rpartition("@")[2],), None, Mask())
    try:
        answer = await fetcher.fetch(FetchRequest(url=url.partition("#")[0]), timeout_s=_TIMEOUT_S, max_bytes=MAX_BYTES)
    except FetchError as error:
        raise FragmentError(f"-f {url}: {error}") from None
    finally:
        await fetcher.aclose()
    if not 200 <= answer.status < 300:
        raise FragmentError(f"-f {url}: the server answered with status {answer.status}")
    return answer.body
