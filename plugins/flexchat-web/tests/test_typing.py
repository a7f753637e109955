"""The types of what plugins get as ``web``."""

from flexchat_web import door
from flexchat_web.typing import Web


def test_the_module_has_everything_that_the_protocol_promises():
    promised = [name for name in vars(Web) if name[0].isupper()]

    assert promised
    assert all(hasattr(door, name) for name in promised)
