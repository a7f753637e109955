"""Stores the progress of a batch until it is done, so that the same command continues where it was cut off."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
from flexchat.errors import StorageError
from flexchat.files import data_folder
from flexchat.turn.keeping import new_conversation_id

from .batch_prompts import Prompt
from .usage import UsageError

_KEPT_S = 23 * 3600
"""Idempotency keys are remembered for 24 hours; a batch that continues needs some of them."""


@attrs.frozen(kw_only=True)
class Progress:
    """An attempt at a batch, over as many runs of the command as it takes.

    Attributes:
        run: 8 hexadecimal digits; the conversations and keys of its prompts begin with it.
        is_continued: Whether an earlier run of the command was cut off.
    """

    run: str
    is_continued: bool
    _file: Path

    def name(self, prompt: Prompt) -> str:
        """Return the conversation and the key of a prompt."""
        return f"batch-{self.run}-{prompt.digest}"

    def done(self) -> None:
        """Forget the attempt: the same command then asks everything again."""
        self._file.unlink(missing_ok=True)


@contextlib.contextmanager
def progress_of(name: str, *, fresh: bool) -> Iterator[Progress]:
    """Open the stored progress of a batch, locked for this process.

    Args:
        name: 32 hexadecimal digits that are the same for the same command.
        fresh: Forget an earlier attempt.

    Raises:
        UsageError: Another process runs this batch, or the earlier attempt is too old to be continued.
        StorageError: The data folder cannot be written.
    """
    folder = data_folder() / "batches"
    with contextlib.ExitStack() as closing:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            closing.enter_context(_alone(folder / f"{name}.lock"))
            progress = _opened(folder / f"{name}.json", fresh=fresh)
        except OSError as error:
            raise StorageError(f"{error.filename or folder}: {error.strerror or error}") from None
        yield progress


def _opened(file: Path, *, fresh: bool) -> Progress:
    began = None if fresh else _read(file)
    if began is None:
        run = new_conversation_id()[:8]
        file.write_text(json.dumps({"run": run, "began_at": time.time()}), encoding="utf-8")
        return Progress(run=run, is_continued=False, file=file)
    run, began_at = began
    ago_s = time.time() - began_at
    if ago_s > _KEPT_S:
        raise UsageError(
            f"this batch was begun {ago_s / 3600:.0f} hours ago, and what was done is known for 24 hours only: "
            "--fresh asks everything again"
        )
    return Progress(run=run, is_continued=True, file=file)


def _read(file: Path) -> tuple[str, float] | None:
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # cut off while it was written
        data = json.loads(file.read_text(encoding="utf-8"))
        return str(data["run"]), float(data["began_at"])
    return None


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows: two that run at once answer the same prompts once, by their keys
        yield
        return
    number = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("this batch is already running, in another process") from None
        yield
    finally:
        os.close(number)
