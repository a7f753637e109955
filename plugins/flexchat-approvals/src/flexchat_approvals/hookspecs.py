"""The hook that this package defines for other plugins."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from flexchat.plugin import Call, hookspec

if TYPE_CHECKING:
    from .policies import Policy


@hookspec
def flexchat_before_approval(call: Call, policy: Policy) -> Awaitable[str | bool | None] | str | bool | None:
    """A person is about to be asked whether a call may run.

    Return a text to reject it, which the model reads as the reason; False to reject it without one; None to leave it to
    the person. Return True to approve it in the person's place: that counts only if the policy names your plugin
    (``plugin = "NAME"``). Of several answers, a rejection wins. If an implementation raises, the person decides.

    Args:
        call: Its tool, its checked arguments, who asks for it. For reading only.
        policy: The policy that requires the approval.
    """
