"""The layers rule: a module imports its own folder and lower layers, nothing else of FlexChat."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core" / "src" / "flexchat"


def drawn(page: Path) -> dict[str, int]:
    """Return the layers as a page draws them: folders and modules by the number before them."""
    block = page.read_text("utf-8").split("```\n 10  host.py")[1].split("\n\n")[0].split(" ──")[0]
    layers, layer = {}, 10
    for line in f" 10  host.py{block}".splitlines():
        number, names = line[:3].strip(), line[4:46].split()
        layer = int(number) if number else layer
        layers |= {
            name.removesuffix("/").removesuffix(".py"): layer for name in names if name[-1] == "/" or name[-3:] == ".py"
        }
    return layers


LAYERS = {**drawn(ROOT / "docs" / "contributing" / "architecture.md"), "__main__": 11}
# Which outside package may be imported where; a prefix of the module's path below src/.
HOMES = {
    "pluggy": ("flexchat/plugin/",),
    "cattrs": ("flexchat/config/", "flexchat/domain/codec.py"),
    "tomli": ("flexchat/config/",),
    "tomllib": ("flexchat/config/", "flexchat/installing.py", "flexchat_sdk/prices.py", "flexchat_toolsearch/words.py"),
    "snowballstemmer": ("flexchat_toolsearch/words.py",),
    "dotenv": ("flexchat_cli/env_file.py",),
    "keyring": ("flexchat_cli/stored_keys.py",),
    "genai_prices": ("flexchat/llms/prices.py",),
    "jsonschema": ("flexchat/schema/",),
    "re2": ("flexchat/schema/", "flexchat/config/", "flexchat_builtin/"),
    "regex": ("flexchat/config/",),
    "httpx": (
        "flexchat_sdk/http/",
        "flexchat_sdk/service.py",
        "flexchat_testing/",
        "flexchat_openai/provider.py",
        "flexchat_ollama/provider.py",
        "flexchat_gemini/provider.py",
        "flexchat_anthropic/provider.py",
        "flexchat_chromadb/",
    ),
    "aiohttp": ("flexchat_sdk/http/",),
    "sqlite3": ("flexchat_sqlite/", "flexchat_validation/store.py", "flexchat_rag/store/"),
    "numpy": ("flexchat_rag/store/", "flexchat_minilm/", "flexchat_pgvector/", "flexchat_builtin/engine.py"),
    "onnxruntime": ("flexchat_minilm/",),
    "tokenizers": ("flexchat_minilm/",),
    "psycopg": ("flexchat_postgresql/", "flexchat_pgvector/", "flexchat_queue/"),
    "procrastinate": ("flexchat_queue/procrastinate_queue.py",),
    "pypdf": ("flexchat_rag/ingest/", "flexchat/media_process.py"),
    "PIL": ("flexchat/media_process.py",),
    "docx": ("flexchat_rag/ingest/",),
    "selectolax": ("flexchat_rag/ingest/",),
    "charset_normalizer": ("flexchat_rag/ingest/",),
    "tqdm": ("flexchat_rag/commands/",),
    "numexpr": ("flexchat_builtin/",),
    "yaml": ("flexchat_validation/importers/promptfoo.py", "flexchat_http/openapi/yaml_reading.py"),
    "jsonpath": ("flexchat_http/",),
    "mcp": ("flexchat_mcp/",),
    "mcp_types": ("flexchat_mcp/",),
    "httpx2": ("flexchat_mcp/",),
    "anyio": ("flexchat_mcp/",),
    "langchain_core": ("flexchat_langchain/",),
    "pydantic": ("flexchat_langchain/", "flexchat_mcp/"),
    "starlette": ("flexchat_web/", "flexchat_mcp/serve/"),
    "uvicorn": ("flexchat_web/commands/",),
    "tomlkit": ("flexchat_web/config/",),
    "opentelemetry": ("flexchat_otel/",),
    "markdown_it": ("flexchat_web/",),
    "jwt": ("flexchat_web/access_tokens.py", "flexchat_web/authentication.py"),
    "argparse": (),
    "click": (
        "flexchat_cli/",
        "flexchat_web/commands/",
        "flexchat_testing/commands/",
        "flexchat_validation/commands/",
        "flexchat_mock/commands/",
        "flexchat_http/commands/",
        "flexchat_rag/commands/",
        "flexchat_mcp/commands/",
        "flexchat_approvals/commands/",
        "flexchat_metrics/commands/",
        "flexchat_queue/commands/",
        "flexchat_policy/commands/",
        "flexchat_toolsearch/commands/",
    ),
}
PUBLIC = (
    "flexchat",
    "flexchat.plugin",
    "flexchat.store",
    "flexchat.host",
    "flexchat_web.typing",
    "flexchat_web.shapes",
)
# Cut out of core, with its version: they import its modules.
CUT_OUT = ("flexchat_sdk", "flexchat_sqlite", "flexchat_cli")
# What a package of ours may use of another one, by its top-level names only.
BELOW = {"flexchat_pgvector": ("flexchat_postgresql",), "flexchat_queue": ("flexchat_postgresql",)}
PACKAGES = {p.name: p for p in [*ROOT.glob("plugins/*/src/*"), *ROOT.glob("flexchat-*/src/*")] if p.is_dir()}


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements below a node, which ast.walk would reach through every expression."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, name, ()) if isinstance(getattr(tree, name, ()), list) else ():
            yield node
            yield from statements(node)


@functools.cache
def imported(path: Path, package: str) -> list[str]:
    """Absolute names of everything a module imports, relative imports resolved."""
    names = []
    below = path.parent.relative_to(path.parents[len(path.parts) - 1 - path.parts.index("src")])
    here = [package, *below.parts[below.parts.index(package) + 1 :]] if package in below.parts else [package]
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names += [module] if node.module else [f"{module}.{alias.name}" for alias in node.names]
    return names


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "__init__"


def test_the_picture_shows_all_there_is():
    """Every folder and module of core stands in docs/contributing/architecture.md."""
    there = {path.relative_to(CORE).parts[0].removesuffix(".py") for path in modules(CORE)}
    assert there == set(LAYERS)


def test_a_module_of_core_imports_its_own_folder_and_lower_layers():
    """No module looks up or sideways."""
    wrong = []
    for path in modules(CORE):
        own = path.relative_to(CORE).parts[0].removesuffix(".py")
        for name in imported(path, "flexchat"):
            top = name.split(".")[0]
            if top.startswith("flexchat_") and own != "__main__":
                wrong.append(f"{path.relative_to(CORE)} imports {name}, which is not core's")
            elif top == "flexchat" and room(name) != own and LAYERS[room(name)] >= LAYERS[own]:
                wrong.append(f"{path.relative_to(CORE)} (layer {LAYERS[own]}) imports {name}")

    assert wrong == []


def test_a_package_of_ours_uses_public_modules_only():
    """What third parties have, and nothing else of core; of another first-party package, only what BELOW says, and the
    types for extensions of flexchat-web.

    A module called conformance, which nothing imports but ``flexchat plugins verify`` and tests, uses the testing kit.
    Only modules with commands import the command line.
    """
    wrong = []
    for package, path in ((package, path) for package, folder in PACKAGES.items() for path in modules(folder)):
        for name in imported(path, package):
            first = name.split(".")[0]
            kit = ("flexchat_testing",) if path.name == "conformance.py" else ()
            allowed = (*CUT_OUT, *kit, *BELOW.get(package, ()))
            is_ours = first == "flexchat" or first.startswith("flexchat_")
            if not is_ours or first == package or (package in CUT_OUT and first in ("flexchat", *CUT_OUT)):
                continue
            if name not in PUBLIC and (first not in allowed or (name != first and not kit)):
                wrong.append(f"{package}/{path.name} imports {name}")

    assert wrong == []


def test_an_outside_package_is_imported_only_where_it_is_at_home():
    """One module knows the HTTP client, one folder the plugin manager, and so on."""
    wrong = []
    for path in (path for folder in (CORE, *PACKAGES.values()) for path in modules(folder)):
        below_src = str(path).split("/src/")[1]
        for name in imported(path, below_src.split("/")[0]):
            homes = HOMES.get(name.split(".")[0])
            if homes is not None and not below_src.startswith(homes):
                wrong.append(f"{below_src} imports {name}")

    assert wrong == []
