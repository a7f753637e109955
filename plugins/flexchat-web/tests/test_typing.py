"""The types of what plugins get as ``web``."""

from flexchat_web import plugin_api
from flexchat_web.operations import Web


def test_the_module_has_exactly_what_the_protocol_declares():
    declared = {name for name in {**vars(Web), **Web.__annotations__} if not name.startswith("_")}

    assert declared == {name for name in vars(plugin_api) if not name.startswith("_")} - {"annotations"}
