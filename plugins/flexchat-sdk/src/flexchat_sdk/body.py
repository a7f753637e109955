"""A request's body, assembled from fields and cached JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flexchat.errors import ProviderRequestError

from .http.pieces import Json, join
from .http.wire_json import to_bytes


class Body(NamedTuple):
    """A request's body, ready to send.

    Attributes:
        content: JSON in UTF-8, in pieces if it has media.
        warnings: What could not be honoured, one sentence each.
    """

    content: Json
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, fields: Mapping[str, Any], spliced: Mapping[str, Json] | None = None, warnings: Sequence[str] = ()
    ) -> Body:
        """Build a body from fields and from values that are already encoded.

        Args:
            spliced: Fields whose values are already JSON, as History and WireTools cache them. A field that is also
                in ``fields``, from the user's extra_body, is omitted.

        Raises:
            ProviderRequestError: A field cannot be written as JSON.
        """
        try:
            parts: list[Json] = [to_bytes(fields)[:-1]]
        except (TypeError, ValueError, RecursionError) as error:
            raise not_json(error) from error
        for name, value in (spliced or {}).items():
            if name not in fields:
                parts += (b',"' if len(parts[0]) > 1 or len(parts) > 1 else b'"', name.encode(), b'":', value)
        return cls(join(b"", [*parts, b"}"]), tuple(warnings))


def merged(fields: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the user's extra_body into fields, tables into tables; its other values replace those of the fields."""
    result = {**fields, **extra}
    for name in fields.keys() & extra.keys():
        if isinstance(fields[name], Mapping) and isinstance(extra[name], Mapping):
            result[name] = merged(fields[name], extra[name])
    return result


def not_json(error: Exception) -> ProviderRequestError:
    """Return the error for a request that cannot be written as JSON."""
    return ProviderRequestError(f"the request cannot be written as JSON: {error}")
