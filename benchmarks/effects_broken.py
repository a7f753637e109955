"""Orders of things that break the promise on purpose: a driver of effects has to notice each of them."""

import attrs
from flexchat.calls.claim import ClaimEffect
from flexchat.turn.journal import Journal

BREAKS = ("claim", "finish", "journal", "effect", "key")


def replace(name, method):
    """Replace a method of ClaimEffect, which must have it: otherwise nothing would be broken."""
    assert hasattr(ClaimEffect, name), name
    setattr(ClaimEffect, name, method)


def break_order(what):
    """Change the order of things, to see that the driver notices."""
    if what == "claim":

        async def run_before_claim(self, call, rest):
            result = await rest()
            call.has_started = True
            await self._claim_or_wait(call, self._describe_call(call))
            return result

        replace("_run_once", run_before_claim)
    elif what == "finish":

        async def never(self, call, effect, state, result):
            return result

        replace("_finish", never)
    elif what == "key":
        may_ask_again = staticmethod(lambda call, effect: effect.handle is not None or call.tool.honours_key)

        async def by_the_tool(self, call, rest, wanted, lost):
            return await recover(self, call, rest, wanted, attrs.evolve(lost, honours_key=call.tool.honours_key))

        recover = ClaimEffect._recover_lost
        replace("_may_ask_again", may_ask_again)
        replace("_recover_lost", by_the_tool)
    elif what == "effect":

        async def as_declared(self, call, rest):
            return await rest()

        replace("_follow_row", as_declared)
    elif what == "journal":

        async def later(self):
            return None

        Journal.flush = later
