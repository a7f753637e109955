"""A provider package's table of prices: data with a source and a date, read from its TOML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Self

from flexchat.domain.prices import ModelPrice, Price

_VERSION = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{3}|latest)$")
_RATES = ("input", "output", "cached_input", "cache_write", "reasoning")


def package_data(package: str, name: str) -> dict[str, Any]:
    """Read a TOML file that a package brings along."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files(package).joinpath(name).read_text("utf-8"))


class PriceTable:
    """Prices of a vendor's models, by their exact names: a longer name is another model, with another price.

    Args:
        data: ``source``, ``date``, and ``models``, each with ``names``, the rates of Price as texts, ``window``, and
            ``above``: the rates of requests that read more than so many ``tokens``.
        package: The distribution it belongs to.
        instead: Names of rates to use in place of others: {"cache_write": "cache_write_1h"}.
    """

    def __init__(self, data: Mapping[str, Any], package: str, *, instead: Mapping[str, str] | None = None) -> None:
        self.source = f"{package}, {data['date']}"
        self._instead = instead or {}
        self._by_name = {name: row for row in data["models"] for name in row["names"]}
        self._read: dict[str, ModelPrice] = {}

    @classmethod
    def from_package(cls, package: str, *, instead: Mapping[str, str] | None = None) -> Self:
        """Read the model_prices.toml of a package."""
        return cls(package_data(package, "model_prices.toml"), package.replace("_", "-"), instead=instead)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def find(self, model: str) -> ModelPrice | None:
        """Look up a model, or the model of which it is a dated version; None for an unlisted one."""
        name = model if model in self._by_name else _VERSION.sub("", model)
        if name not in self._read:
            if (row := self._by_name.get(name)) is None:
                return None
            above = tuple((part["tokens"], self._price(part)) for part in row.get("above", ()))
            self._read[name] = ModelPrice(price=self._price(row), window=row.get("window"), above=above)
        return self._read[name]

    def _price(self, row: Mapping[str, Any]) -> Price:
        rates = {name: row.get(self._instead.get(name, name), row.get(name)) for name in _RATES}
        return Price(**{name: Decimal(v) for name, v in rates.items() if v is not None}, source=self.source)
