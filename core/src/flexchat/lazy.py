"""Lazy re-exports: a package lists its public names once, in a stub file, and imports each on first access.

Type checkers and editors read the stub (``__init__.pyi``); at run time ``attach_stub`` reads the same file. The idea is
that of SPEC 1 of the scientific Python projects.
"""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach_stub(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Read the stub beside a module and return its ``__getattr__``, ``__dir__`` and ``__all__``.

    Args:
        module: The module's ``__name__``.
        file: Its ``__file__``; the stub has the same name with the suffix ``.pyi`` and contains only
            ``from X import A as A`` statements.

    Raises:
        FileNotFoundError: The distribution was built without its stubs.
    """
    package = module if Path(file).stem == "__init__" else module.rpartition(".")[0]
    homes: dict[str, tuple[str, str]] = {}
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            homes |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, original = homes[name]
        source = importlib.import_module(home, package)
        if not hasattr(source, original):  # a submodule that nothing has imported yet
            importlib.import_module(f"{source.__name__}.{original}")
        value = getattr(source, original)
        setattr(importlib.import_module(module), name, value)  # later accesses do not come here
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(importlib.import_module(module)), *homes})

    public = sorted((name for name in homes if name != "__version__"), key=lambda name: (not name.isupper(), name))
    return __getattr__, __dir__, public
