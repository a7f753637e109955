"""`flexchat serve` as a process of its own, on a free port of loopback."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path


class WebServer:
    """The program as a user starts it, in a folder of its own.

    Args:
        folder: Where it runs and keeps its data.
        config: What stands in its configuration; None starts it without one: the demo's.
        name: Of the configuration's file.

    Attributes:
        url: With a slash at its end.
        config: The configuration's file.
    """

    def __init__(self, folder: Path, config: str | None = None, *options: str, name: str = "flexchat.toml") -> None:
        self.config = folder / name
        if config is not None:
            self.config.write_text(config, "utf-8")
        self._log = folder / "serve.log"
        command = [sys.executable, "-m", "flexchat", "serve", "--port", "0", *options]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("FLEXCHAT_", "COV"))}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment, "FLEXCHAT_DATA": str(folder / "data"), "NO_COLOR": "1"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        found = re.search(r"http://\S+/", first)
        if not found:
            self.close()
            raise AssertionError(f"flexchat serve did not start: {first}{self.log}")
        self.url = found[0]

    @property
    def log(self) -> str:
        """What it has written to standard error so far."""
        return self._log.read_text("utf-8")

    def kill(self) -> None:
        """End it at once, as a power cut does."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(OSError):
            self._process.stdout.close()
