"""The ``stores`` entry, with the key names of the Node.js FlexChat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs
from flexchat.store import key as setting
from flexchat.store import secret_key
from flexchat_sdk import web_address


def _positive(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"{attribute.name} must be more than 0, got {value:g}")


def _not_negative(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value < float("inf"):
        raise ValueError(f"{attribute.name} must be 0 or more, got {value:g}")


def _path(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    if not value.startswith("/"):
        raise ValueError(f"{attribute.name} is a path on the server and starts with /")


@attrs.frozen(kw_only=True)
class Auth:
    """Authentication of requests.

    Attributes:
        type: Selects the fields to use: "bearer" token; "basic" username and password; "api-key" key.
        header: The header that carries the key.
    """

    type: Literal["bearer", "basic", "api-key"]
    token: str | None = secret_key("For bearer.")
    username: str = setting("For basic.", default="")
    password: str | None = secret_key("For basic.")
    key: str | None = secret_key("For api-key.")
    header: str = setting("For api-key.", default="X-API-Key")

    def __attrs_post_init__(self) -> None:
        needed = {"bearer": "token", "basic": "password", "api-key": "key"}[self.type]
        if not getattr(self, needed):
            raise ValueError(f"auth of type {self.type} needs '{needed}'")


@attrs.frozen(kw_only=True)
class Retry:
    """Retries of idempotent requests after transient failures."""

    max_attempts: int = setting("Requests altogether.", default=3, validator=attrs.validators.in_(range(1, 11)))
    delay: float = setting("Milliseconds before the second; doubled each time.", default=1000, validator=_not_negative)


@attrs.frozen(kw_only=True)
class WrapperConfig:
    """A stores entry with ``provider = "chromadb-wrapper"``."""

    url: str = setting("Address of the wrapper: http://localhost:5006.", validator=web_address)
    collection: str | None = setting("The only collection used. Default: all of them.", default=None)
    timeout: float = setting(
        "Milliseconds for one request; twice as long for adding.", default=30000, validator=_positive
    )
    max_distance: float = setting("What is further away is left out.", default=1.0, validator=_not_negative)
    default_threshold: float | None = setting("Taken for configs of the original, and not used.", default=None)
    auth: Auth | None = setting("How to prove who asks.", default=None, repr=False)  # noqa: RUF009  an attrs field
    headers: Mapping[str, str] = setting("Sent with every request.", factory=dict, repr=False)
    retry: Retry = setting("How often to ask again.", factory=Retry)  # noqa: RUF009  an attrs field
    health_check_endpoint: str = setting("Path of the health check.", default="/health", validator=_path)
    embedding_model: str | None = setting(
        "Id of the wrapper's model for collections that are made; default: the first it has loaded.", default=None
    )
    rerank_on_server: bool = setting("Let the wrapper's cross-encoder read the best hits again.", default=False)
