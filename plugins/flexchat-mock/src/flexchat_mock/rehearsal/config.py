"""What an llms entry with provider = "rehearsal" may say."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RehearsalConfig:
    """An llms entry with provider = "rehearsal": it has no settings."""
