"""The official conformance suite, both revisions, through FlexChat's command line (conformance_driver.py).

All that each revision requires of clients; what the suite reports beyond that is not run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed import with_path

pytestmark = pytest.mark.slow

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
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


@pytest.mark.parametrize(
    ("version", "scenario"),
    [
        *(("2026-07-28", name) for name in (*OF_BOTH, *OF_2026)),
        *(("2025-11-25", name) for name in (*OF_BOTH, *OF_2025)),
    ],
)
def test_scenario(installed, version, scenario, tmp_path):
    node = installed.node()
    start = [str(node / "node"), str(installed.npm(SUITE) / "conformance")]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FLEXCHAT")},
        **with_path(node),
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
