"""The keys of [conversations] with provider "sqlite"."""

import attrs


@attrs.frozen(kw_only=True)
class SqliteSettings:
    """[conversations] with provider "sqlite"."""

    path: str | None = attrs.field(
        default=None,
        metadata={
            "help": "The file, relative to the config's folder; :memory: for none. "
            "Default: conversations.db in your data folder."
        },
    )
