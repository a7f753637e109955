"""A stream that is closed after so many events: nothing has begun that its reader has not seen begin.

Only effects are shown: which models were asked, which tools ran, what is kept. How far ahead of its reader a model's
answer is read is nobody's business.
"""

import functools

from flexchat_testing import calls

from .doubles import SAVE, A, B, Notebook, echo, in_notebook, save
from .recording import GROUPS, Scene

EVENTS = 30
"""Of the whole turn, with its end."""


def closed(after: int) -> Scene:
    """A turn with two rounds of tools."""
    return Scene(
        models=[calls(A, SAVE, text="I look."), calls(B), "It is done."],
        tools=[echo, save],
        tables={"conversations": {"provider": "notebook"}},
        gates=[in_notebook(Notebook())],
        asked={"conversation": "c"},
        kept="c",
        close_after=after,
    )


GROUPS["closed"] = {f"after_{count}_events": functools.partial(closed, count) for count in range(EVENTS + 1)}
