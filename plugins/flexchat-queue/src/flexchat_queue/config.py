"""The config's table [queue]."""

from __future__ import annotations

from typing import Any, Literal

import attrs
from flexchat.host import key


def _schema(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    # Only such names, since it is also part of the engine's search_path.
    if not value.isascii() or not value.isidentifier() or len(value) > 63 or value.startswith("pg_"):
        raise ValueError("schema must be a name of at most 63 letters, digits and _, that does not begin with pg_")


@attrs.frozen(kw_only=True)
class QueueTable:
    """[queue]: how workers share turns."""

    provider: Literal["procrastinate"] = key("The engine.", default="procrastinate")
    schema: str = key(
        "Schema of its tables, in the database of the conversations; created if missing.",
        default="flexchat_queue",
        validator=_schema,
    )
    concurrency: int = key("Turns that a worker runs at once.", min=1, max=1000, default=8)
    stuck_after_s: float = key(
        "Seconds after which a turn that fits the configuration of no worker is reported as stuck.",
        min=1,
        max=604_800,
        default=600.0,
    )
