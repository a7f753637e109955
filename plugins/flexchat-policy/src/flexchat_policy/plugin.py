"""What this package provides. Light: modules are imported when they are needed."""

from __future__ import annotations

FLEXCHAT_API = (0, 1)
