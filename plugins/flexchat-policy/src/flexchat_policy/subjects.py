"""Who and what a budget or a limit counts: one counter for each tenant, role, tool …"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import attrs
from flexchat.host import current_call, current_turn
from flexchat.plugin import Call, ServiceRequest, TurnInfo

Scope = Literal["all", "tenant", "principal", "role", "rule", "tool", "conversation"]


@attrs.frozen(kw_only=True)
class Subject:
    """What spends: a request to a model, a call of a tool, or a turn.

    Attributes:
        info: Of the outermost turn: what its tools start is spent by the same tenant, principal and conversation.
        turn: Id of the outermost turn; of the call if there is none.
        rule, tool: Names; empty where there is none.
        names: All names of the tool that patterns may fit.
    """

    info: TurnInfo
    turn: str
    rule: str = ""
    tool: str = ""
    names: tuple[str, ...] = ()

    @property
    def principal(self) -> str:
        """The name of the principal; empty without one."""
        return "" if self.info.principal is None else self.info.principal.name

    def in_scope(self, scope: Scope, only: Sequence[str] | None) -> list[tuple[str, ...]]:
        """Return the names under which this is counted in a scope; none if the scope is not about it.

        Args:
            only: Patterns of names that are counted; None for all.
        """
        tenant, principal = self.info.tenant, self.info.principal
        names: dict[Scope, list[tuple[str, ...]]] = {
            "all": [()],
            "tenant": [(tenant,)],
            "principal": [(tenant, self.principal)],
            "role": [(role,) for role in (principal.roles if principal is not None else ())],
            "rule": [(self.rule,)] if self.rule else [],
            "tool": [(self.tool,)] if self.tool else [],
            "conversation": [(tenant, self.info.conversation or self.turn)],
        }
        return [each for each in names[scope] if only is None or any(fnmatchcase(each[-1], one) for one in only)]

    def labels(self, model: str = "") -> dict[str, str]:
        """Return the labels of its sums."""
        of_whom = {"tenant": self.info.tenant, "principal": self.principal}
        return {**of_whom, "rule": self.rule, "tool": self.tool, "model": model}


def subject_of_request(request: ServiceRequest) -> Subject:
    """Return the subject of a request: the rule of its turn, and the tool that started the turn."""
    call = current_call.get()
    tool = "" if call is None else call.name
    return Subject(info=request.root, turn=request.root.id, rule=_rule(request.rule), tool=tool)


def subject_of_call(call: Call) -> Subject:
    """Return the subject of a call of a tool."""
    turn, tool = current_turn.get(), call.tool
    names = [call.name]
    if tool is not None and tool.source:
        names += [f"{tool.source}/{call.name}", f"{tool.source}/"]
    root = call.turn if turn is None else turn.root
    return Subject(info=root, turn=root.id or call.id, rule=_rule(call.rule), tool=call.name, names=tuple(names))


def _rule(rule: Any) -> str:
    return "" if rule is None else rule[1] or str(rule[0])
