"""No module imports, directly or through others, a module that imports it."""

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted([ROOT / "core" / "src", *ROOT.glob("plugins/*/src"), *ROOT.glob("flexchat-*/src")])


def imports_of(module: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules of the same distribution that a module imports, for types and inside functions included."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*parent, *([node.module] if node.module else [])])
            # A name of a package is its submodule, or is defined by the package itself.
            names |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base for alias in node.names}
    return names & modules.keys() - {module}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.parent.name)
def test_a_distribution_has_no_import_cycle(source):
    paths = {path: path.relative_to(source).with_suffix("").parts for path in source.rglob("*.py")}
    modules = {".".join(parts).removesuffix(".__init__"): path for path, parts in paths.items()}
    assert len(modules) > 1

    graph = {module: imports_of(module, path, modules) for module, path in modules.items()}

    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
