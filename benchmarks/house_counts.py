"""Counts of the house: what one turn runs through, what there is twice, how large it all is.

    .venv/bin/python benchmarks/house_counts.py                        this checkout
    .venv/bin/python benchmarks/house_counts.py --tree ../other        another one, measured by the same script
    .venv/bin/python benchmarks/house_counts.py --names                with the names behind the figures

A turn is streamed and calls one tool; the model is OpenAI's adapter, opened from a configuration, before answers in
memory. The other checkout needs no environment of its own: its sources are put before the installed ones.
"""

import argparse
import ast
import asyncio
import collections
import gc
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
LONG = 60
DOORS = ("flexchat", "flexchat.plugin", "flexchat_sdk", "flexchat.store", "flexchat.host", "flexchat_testing")
PIECE = "Nineteen degrees."
"""The text whose way to the caller is followed."""


def sources(tree):
    """Return the source folders of a checkout, by distribution."""
    found = [tree / "core" / "src", *tree.glob("flexchat-*/src"), *tree.glob("plugins/*/src")]
    return {path.parent.name: path for path in sorted(found) if path.is_dir()}


def modules(folder):
    """Return the product's files of a source folder; what is only copied for a user is none."""
    return [path for path in sorted(folder.rglob("*.py")) if "templates" not in path.parts]


# What one turn runs through: these run in a process of their own, which has the checkout's sources before all others.


def memory_chat():
    """Return a chat whose model stands in memory, and asks for the weather once."""
    import attrs
    import httpx
    from flexchat import FlexChat, tool
    from flexchat.plugin import hookimpl
    from flexchat.plugin.host import PluginHost
    from flexchat_openai.config import OpenAIConfig
    from flexchat_openai.provider import OpenAIProvider
    from flexchat_sdk import ProviderType

    def frames(*deltas, finish):
        choices = [{"index": 0, "delta": delta} for delta in deltas] + [{"delta": {}, "finish_reason": finish}]
        data = [json.dumps({"id": "c", "model": "m", "choices": [choice]}) for choice in choices]
        return [f"data: {line}\n\n".encode() for line in (*data, "[DONE]")]

    function = {"name": "get_weather", "arguments": '{"city": "Rome"}'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    texts = ({"content": text} for text in ("It ", "is ", PIECE))
    answers = [frames({"tool_calls": [call]}, finish="tool_calls"), frames(*texts, finish="stop")]

    class Pieces(httpx.AsyncByteStream):
        def __init__(self, pieces):
            self.pieces = pieces

        async def __aiter__(self):
            for piece in self.pieces:
                await asyncio.sleep(0)
                yield piece

    class Memory(httpx.AsyncBaseTransport):
        asked = 0

        async def handle_async_request(self, request):
            self.asked += 1
            kind = {"content-type": "text/event-stream"}
            return httpx.Response(200, headers=kind, stream=Pieces(answers[(self.asked - 1) % 2]))

    class Model:
        @hookimpl
        def flexchat_register_providers(self):
            def create(config):
                return OpenAIProvider(config, transport=Memory())

            formats = {name: encode for kind in openai_types() for name, encode in kind.tool_formats.items()}
            yield ProviderType(
                name="memory", config_class=OpenAIConfig, create=create, tool_formats={"memory": formats["openai"]}
            )

    def openai_types():
        from flexchat_openai import plugin

        return list(plugin.flexchat_register_providers())

    @tool(effect="read")
    async def get_weather(city: str) -> dict:
        """Get the weather."""
        return {"celsius": 19}

    assert attrs
    plugins = PluginHost()
    plugins.load_installed()
    plugins.register(Model(), "memory")
    config = {
        "llms": {"it": {"provider": "memory", "base_url": "http://127.0.0.1:9", "api_key": "k"}},
        "responses": [{"llm": "it", "model": "m", "prompt": "Be brief.", "tools": {"enabled": True}}],
    }
    return FlexChat.from_config(config, tools=[get_weather], plugins=plugins)


class Watch:
    """Notes which functions of the checkout run, and which of them hold the piece of text on its way."""

    def __init__(self, tree):
        self.tree = f"{tree}{os.sep}"
        self.functions = set()
        self.carriers = set()

    def __call__(self, frame, event, argument):
        code = frame.f_code
        if (
            event not in ("call", "return")
            or not code.co_filename.startswith(self.tree)
            or "/src/" not in code.co_filename
        ):
            return
        if code.co_name.startswith("<") and code.co_name != "<lambda>":
            return
        where = (code.co_filename, code.co_firstlineno, code.co_qualname)
        self.functions.add(where)
        lasting = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        if event == "return" and code.co_flags & lasting and "/core/src/" in code.co_filename:
            for value in [*frame.f_locals.values()]:
                if type(value).__name__ == "TextDelta" and value.text == PIECE:
                    self.carriers.add(where)


async def traced_turns(tree):
    """Return what the first turn of a chat runs through, and what its second: without what is imported or made once."""
    chat, watches = memory_chat(), []
    for _ in range(2):
        watches.append(watch := Watch(tree))
        threading.setprofile(watch)
        sys.setprofile(watch)
        events = [event async for event in chat.stream("How is the weather in Rome?")]
        sys.setprofile(None)
        threading.setprofile(None)
        assert any(getattr(event, "text", "") == PIECE for event in events), events
    return watches


def config_reads():
    """Return how often one `flexchat ask` opens its configuration."""
    import runpy

    folder = Path(tempfile.mkdtemp())
    file = folder / "flexchat.toml"
    file.write_text('[llms.demo]\nprovider = "rehearsal"\n\n[[responses]]\nllm = "demo"\nmodel = "m"\n', "utf-8")
    opened = []

    def hear(event, args):
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike) and os.fspath(args[0]) == str(file):
            opened.append(1)

    sys.addaudithook(hear)
    sys.argv = ["flexchat", "ask", "--config", str(file), "Hello!"]
    kept, sys.stdout, code = sys.stdout, io.StringIO(), None
    try:
        runpy.run_module("flexchat", run_name="__main__")
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout = kept
    assert not code, code
    return len(opened)


def inside(tree):
    """Print as JSON what must be measured where the checkout is imported."""
    import flexchat

    assert Path(flexchat.__file__).is_relative_to(tree), flexchat.__file__
    first, later = asyncio.run(traced_turns(tree))
    doors = {}
    for door in DOORS:
        try:
            doors[door] = len(__import__(door, fromlist=["_"]).__all__)
        except (ImportError, AttributeError):
            doors[door] = None
    gc.collect()

    def named(found):
        return sorted(f"{Path(file).relative_to(tree)}:{line} {name}" for file, line, name in found)

    found = {
        "first": named(first.functions),
        "later": named(later.functions),
        "carriers": named(later.carriers),
        "doors": doors,
        "reads": config_reads(),
    }
    print("\n" + json.dumps(found))


# What is written: read from the sources.


class Functions(ast.NodeVisitor):
    """The functions of a module: (qualified name, node, whether its class is itself a provider)."""

    def __init__(self, tree):
        self.found, self._above, self._in_provider = [], [], False
        self.visit(tree)

    def visit_ClassDef(self, node):
        outer, self._in_provider = self._in_provider, any(getattr(n, "name", "") == "generate_chat" for n in node.body)
        self._inside(node)
        self._in_provider = outer

    def visit_FunctionDef(self, node):
        self.found.append((".".join([*self._above, node.name]), node, self._in_provider))
        self._inside(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def _inside(self, node):
        self._above.append(node.name)
        self.generic_visit(node)
        self._above.pop()


def own(node):
    """Yield what stands in a function itself, and not in a function within it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
            yield from own(child)


def asks_a_model(node):
    """Whether a function calls a provider's generate_chat or stream_chat."""
    calls = (n.func for n in own(node) if isinstance(n, ast.Call))
    return any(isinstance(n, ast.Attribute) and n.attr in ("generate_chat", "stream_chat") for n in calls)


def loops_over_answers(node):
    """Whether a function counts the answers of a model that ask for tools: for iteration in range(…)."""
    return any(
        isinstance(n, ast.For | ast.AsyncFor)
        and any("iteration" in getattr(part, "id", "") for part in ast.walk(n.target))
        and any(isinstance(part, ast.Await | ast.AsyncFor) for part in ast.walk(n))
        for n in own(node)
    )


def names_default(node):
    """Whether an expression names somebody's default model."""
    names = (getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(node))
    return any(name.lstrip("_") in ("default_model", "default_models") for name in names)


def resolves_a_model(node):
    """Whether a function decides which model is meant: `… or default_model`, or looks one up by its LLM."""
    return any(
        (isinstance(n, ast.BoolOp) and isinstance(n.op, ast.Or) and names_default(n))
        or (
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and n.func.attr == "get"
            and names_default(n.func)
        )
        or (isinstance(n, ast.Subscript) and names_default(n.value))
        for n in own(node)
    )


def written(tree):
    """Return what the sources say: names behind each figure."""
    found = collections.defaultdict(list)
    lines, sizes = {}, {}
    for distribution, folder in sources(tree).items():
        lines[distribution] = 0
        for path in modules(folder):
            text = path.read_text("utf-8")
            sizes[str(path.relative_to(tree))] = count = text.count("\n")
            lines[distribution] += count
            is_double = "testing" in str(path)
            for name, node, in_provider in Functions(ast.parse(text)).found:
                where = f"{path.relative_to(tree)}:{node.lineno} {name}"
                length = node.end_lineno - node.lineno + 1
                if length > LONG:
                    found["long"].append(f"{where} ({length} lines)")
                if asks_a_model(node) and not is_double:
                    found["forwarders" if in_provider else "exchanges"].append(where)
                if loops_over_answers(node):
                    found["loops"].append(where)
                if resolves_a_model(node):
                    found["resolves"].append(where)
    return found, lines, sizes


def imports(path, package, lazy, typed):
    """Yield the modules a file imports: within functions only if lazy, for annotations alone only if typed."""

    def walk(node):
        for child in ast.iter_child_nodes(node):
            if not typed and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not lazy:
                continue
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                parts = package.split(".")[: len(package.split(".")) - child.level + 1] if child.level else []
                base = ".".join([*parts, *([child.module] if child.module else [])])
                yield base
                yield from (f"{base}.{alias.name}" for alias in child.names)
            yield from walk(child)

    yield from walk(ast.parse(path.read_text("utf-8")))


def circles(tree, *, lazy, typed):
    """Return the files that import each other, directly or through others."""
    files = {}
    for folder in sources(tree).values():
        for path in modules(folder):
            name = ".".join(path.relative_to(folder).with_suffix("").parts)
            files[name.removesuffix(".__init__")] = path
    edges = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        # A package whose file stands above this one has begun to run already: to import through it is no circle.
        wanted = [one for one in imports(path, package, lazy, typed) if one in files and one != name]
        deepest = [one for one in wanted if not any(other.startswith(one + ".") for other in wanted)]
        edges[name] = {one for one in deepest if not name.startswith(one + ".")}
    return strongly_connected(edges)


def strongly_connected(edges):
    """Return the groups of more than one node in which each reaches each (Tarjan)."""
    index, low, stack, groups = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                groups.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return groups


def measured(tree):
    """Return what a process says that imports the checkout."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(path) for path in sources(tree).values())}
    env.pop("FLEXCHAT_CONFIG", None)
    command = [sys.executable, __file__, "--inside", "--tree", str(tree)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=HERE, help="checkout to count; absent: this one")
    parser.add_argument("--names", action="store_true", help="also print the names behind the figures")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    tree = args.tree.resolve()
    if args.inside:
        inside(tree)
        return
    ran = measured(tree)
    found, lines, sizes = written(tree)
    revision = subprocess.run(
        ["git", "-C", str(tree), "describe", "--always", "--dirty"], capture_output=True, text=True
    )

    def row(label, names):
        print(f"{len(names):>7,}  {label}")
        if args.names:
            print("".join(f"           {name}\n" for name in sorted(names)), end="")

    print(f"{tree.name} at {revision.stdout.strip()}\n\nOne streamed turn with one tool")
    for which in ("later", "first"):
        row(f"files of ours that the {which} turn runs through", {one.partition(":")[0] for one in ran[which]})
        row(f"functions of ours that the {which} turn runs through", ran[which])
    row("layers of core that a piece of text passes", ran["carriers"])
    print("\nThings there should be one of")
    row("tool loops", found["loops"])
    row("functions that ask a model (doubles and laws for tests not counted)", found["exchanges"])
    row("functions of providers that pass on to another provider", found["forwarders"])
    row("functions that resolve a model", found["resolves"])
    print(f"{ran['reads']:>7,}  times the config is opened for one `flexchat ask`")
    print("\nSize")
    row(f"functions over {LONG} lines", found["long"])
    core, all_lines = lines["core"], sum(lines.values())
    print(f"{all_lines:>7,}  lines of product Python, {core:,} of them in core ({100 * core / all_lines:.0f} %)")
    for distribution, count in sorted(lines.items(), key=lambda item: -item[1]):
        print(f"{count:>7,}    {distribution}")
    print("         largest files")
    for name, count in sorted(sizes.items(), key=lambda item: -item[1])[:10]:
        print(f"{count:>7,}    {name}")
    kinds = {
        "": {"lazy": False, "typed": False},
        ", with what functions import": {"lazy": True, "typed": False},
        ", with what annotations name": {"lazy": True, "typed": True},
    }
    for label, kind in kinds.items():
        groups = circles(tree, **kind)
        large = f" (of {', '.join(str(len(group)) for group in groups)} files)" if groups else ""
        row(f"circles of files{label}{large}", [", ".join(group) for group in groups])
    print("\nNames behind each door")
    for door, count in ran["doors"].items():
        print(f"{'–' if count is None else count:>7}  {door}")


if __name__ == "__main__":
    main()
