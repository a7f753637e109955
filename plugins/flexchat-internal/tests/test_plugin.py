"""What the package registers."""

import subprocess
import sys

import pytest
from flexchat.plugin.host import PluginHost
from flexchat_internal import plugin


def test_the_plugin_registers_all_the_readme_promises():
    """A type, a handler, a tool and a document store."""
    report = PluginHost(strict=True).register(plugin, "internal")

    assert set(report.provides) == {
        "implementation type internal",
        "tool handler internal rag_query",
        "tool search_documents",
        "document store memory",
    }


@pytest.mark.slow
def test_loading_the_plugin_imports_nothing_heavy():
    """plugin.py stays light."""
    heavy = "('httpx', 'aiohttp', 'numpy', 'jsonschema', 'cattrs', 're2')"
    program = f"import sys, flexchat_internal.plugin; print([m for m in {heavy} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
