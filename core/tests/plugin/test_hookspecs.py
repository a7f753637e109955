"""The examples in the hook specifications are plugins that load."""

import inspect
import random
import textwrap
import time
import types

import attrs
import pytest
from flexchat import plugin
from flexchat.plugin import hookspecs
from flexchat.plugin.host import PluginHost

HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("flexchat_")}
EXAMPLES = {n: inspect.getdoc(h).split("Example:")[1] for n, h in HOOKS.items() if "Example:" in inspect.getdoc(h)}


@attrs.frozen(kw_only=True)
class AnyConfig:
    """Stands for a plugin's own config class."""


def test_every_registration_hook_has_an_example():
    """A newcomer copies it."""
    assert {n for n in HOOKS if n.startswith("flexchat_register_")} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_loads(name):
    """Each example, as it stands, is an active plugin."""
    module = types.ModuleType("example")
    names = {n: getattr(plugin, n) for n in plugin.__all__}
    stand_ins = dict.fromkeys(
        ("ParrotConfig", "Parrot", "ShelfConfig", "Shelf", "NotebookConfig", "Notebook"), AnyConfig
    )
    vars(module).update(names, **stand_ins, random=random, time=time, attrs=attrs, encode_tools=lambda tools: [])

    exec(textwrap.dedent(EXAMPLES[name]), vars(module))

    report = PluginHost().register(module, "example")
    assert (report.status, report.reason) == ("active", "")
    assert name in report.hooks
