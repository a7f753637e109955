"""Trees of turns sent over OTLP to a tool that shows traces, and read back from it: nothing may be lost.

    python benchmarks/telemetry_import.py phoenix http://127.0.0.1:6006
    python benchmarks/telemetry_import.py file request.json    # the request to such a tool, to be read by its own code

Sends a turn with two tools, one that fails, one that starts a turn (a link), a retrieval, embeddings, a suspended turn
that is resumed (a link), and content. Compares names, parents, attributes and links in and out.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import httpx
from flexchat import Embeddings, FlexChat, Reply, new_conversation_id, tool
from flexchat.domain.prices import Usage
from flexchat_testing import ScriptedProvider, calls, says
from google.protobuf.json_format import MessageToJson
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CONTENT = ["invoke_agent", "chat", "execute_tool", "retrieval"]


class Model(ScriptedProvider):
    """Answers from a script, and makes vectors."""

    name = "openai"

    async def embed(self, texts, model, **_):
        vectors = tuple((1.0, 0.0, 0.0) for _ in texts)
        return Embeddings(vectors=vectors, model=model, usage=Usage(input_tokens=len(texts), output_tokens=0))


async def run_turns():
    """Run the turns."""
    import attrs

    @tool(effect="read")
    def fail() -> str:
        """Fail."""
        raise RuntimeError("broken")

    @tool(effect="read")
    async def ask() -> str:
        """Ask the chat itself."""
        return (await chat.respond("inner")).content

    @tool(effect="read", approve=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def priced(reply, number):
        usage = Usage(input_tokens=10 * number, output_tokens=number, cache_read_tokens=number)
        return attrs.evolve(says(reply) if isinstance(reply, str) else reply, usage=usage, model="m1-0101")

    script = [calls(("fail", {}), ("ask", {})), "inner answer", "outer answer", calls(("pay", {})), "paid"]
    config = {
        "conversations": {"path": f"{tempfile.mkdtemp()}/c.db"},
        "questions": {"expires": "1h"},
        "stores": {"notes": {"provider": "memory", "documents": [{"id": "a", "text": "A note about tea."}]}},
        "responses": [
            {"name": "main", "llm": "m", "model": "m1", "tools": {"enabled": True}, "prompt": "{{documents}}"}
        ],
        "telemetry": {"content": CONTENT},
    }
    replies = [priced(reply, number) for number, reply in enumerate(script, 1)]
    chat = FlexChat.from_config(config, tools=[fail, ask, pay], providers={"m": Model(replies)})
    async with chat:
        await chat.embed(["a text"], model="e1")
        await chat.respond("outer", conversation="first")
        await chat.respond("pay", conversation=new_conversation_id())
        (question,) = await chat.pending()
        await (await chat.answer(question.id, Reply(action="accept"))).result()


def tree_of(spans):
    """Return what is compared, by the spans' ids."""
    return {
        f"{span.context.span_id:016x}": {
            "name": span.name,
            "trace": f"{span.context.trace_id:032x}",
            "parent": f"{span.parent.span_id:016x}" if span.parent else None,
            "attributes": {name: list(v) if isinstance(v, tuple) else v for name, v in span.attributes.items()},
            "links": sorted(f"{link.context.span_id:016x}" for link in span.links),
            "status": span.status.status_code.name,
        }
        for span in spans
    }


def flat(attributes, prefix=""):
    """Return nested attributes by their dotted names."""
    found = {}
    for name, value in attributes.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def read_phoenix(url, ids):
    """Return the spans that Phoenix has, as by its REST interface."""
    for _ in range(60):
        answer = httpx.get(f"{url}/v1/projects/default/spans", params={"limit": 1000}, timeout=30)
        spans = answer.raise_for_status().json()["data"] if answer.status_code == 200 else []
        if ids <= {span["context"]["span_id"] for span in spans}:
            break
        time.sleep(1)
    return {
        span["context"]["span_id"]: {
            "name": span["name"],
            "trace": span["context"]["trace_id"],
            "parent": span["parent_id"],
            "attributes": flat(span["attributes"]),
            "links": sorted(link["context"]["span_id"] for link in span.get("links") or ()),
            "status": span["status_code"],
            "kind": span["span_kind"],
        }
        for span in spans
    }


def same(name, sent, got):
    """Return whether an attribute arrived: the value itself, or what its JSON says."""
    if sent == got or str(sent) == str(got):
        return True
    try:
        return json.loads(sent) == got
    except (TypeError, ValueError):
        return False


def main():
    kind, url = sys.argv[1:3]
    memory, provider = InMemorySpanExporter(), TracerProvider(resource=Resource.create({"service.name": "flexchat"}))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    if kind == "phoenix":
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    trace.set_tracer_provider(provider)
    asyncio.run(run_turns())
    provider.force_flush()
    sent = tree_of(memory.get_finished_spans())
    if kind == "file":
        Path(url).write_text(MessageToJson(encode_spans(memory.get_finished_spans()), use_integers_for_enums=True))
        print(f"{len(sent)} spans")
        return
    got = read_phoenix(url, sent.keys())
    lost, links, attributes = [], 0, 0
    for id, span in sent.items():
        other = got.get(id)
        if other is None:
            lost.append(f"{span['name']}: the span")
            continue
        lost += [f"{span['name']}: {part}" for part in ("name", "trace", "parent") if span[part] != other[part]]
        # A tool that has no links has what they state: earlier runs as an attribute, nested turns as children.
        stated = [*other["links"], *other["attributes"].get("flexchat.turn.earlier_runs", ())]
        stated += [nested for nested, each in got.items() if each["parent"] == id]
        links += len(span["links"])
        lost += [f"{span['name']}: link to {link}" for link in span["links"] if link not in stated]
        for name, value in span["attributes"].items():
            attributes += 1
            if not same(name, value, other["attributes"].get(name)):
                lost.append(f"{span['name']}: {name} {value!r:.80}, {other['attributes'].get(name)!r:.80}")
    print(f"{len(sent)} spans, {attributes} attributes and {links} links sent; lost: {len(lost)}")
    print(*lost, sep="\n")
    print("kinds:", sorted({(span["name"], span["kind"]) for id, span in got.items() if id in sent}))


if __name__ == "__main__":
    main()
