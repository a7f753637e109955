"""What the package registers."""

import subprocess
import sys

import pytest
from flexchat.plugin.host import PluginHost
from flexchat_mock import plugin


def test_the_plugin_registers_a_type_and_a_provider():
    """Everything the README promises, and nothing fails."""
    host = PluginHost(strict=True)

    report = host.register(plugin, "mock")

    assert set(report.provides) == {"implementation type mock", "provider rehearsal"}


def test_the_provider_is_made_from_an_empty_table():
    """create touches no network and needs no setting."""
    for record in plugin.flexchat_register_providers():
        provider = record.create(record.config_class())

        assert provider.name == record.name
        assert provider.tool_format("any") in record.tool_formats


@pytest.mark.slow
def test_loading_the_plugin_imports_nothing_heavy():
    """Neither a network client nor the rehearsal model's word lists."""
    heavy = "('httpx', 'aiohttp', 'numpy', 'jsonschema', 'cattrs', 're2', 'flexchat_mock.rehearsal.provider')"
    program = f"import sys, flexchat_mock.plugin; print([m for m in {heavy} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
