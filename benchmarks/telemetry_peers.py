"""What peers' spans and metrics are by the conventions that flexchat-otel's are tested against.

    PEER_ENVIRONMENT/bin/python benchmarks/telemetry_peers.py pydantic-ai

Runs in an environment of the peer's own, with `opentelemetry-sdk`, against a server for OpenAI's API in a thread: one
conversation with a call of a tool, in the peer's own instrumentation as it is by default. Prints how many spans and
metrics there were, what violates the conventions, and which attributes are not of them.
"""

import asyncio
import collections
import importlib.util
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CHECKER = Path(__file__).parents[1] / "plugins/flexchat-otel/tests/conformance.py"
MESSAGE = "How is the weather in Paris?"


class Service(BaseHTTPRequestHandler):
    """A model that calls the tool, then answers."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        call = {"id": "call_1", "type": "function"}
        call["function"] = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        message = {"role": "assistant", "content": "It is nineteen degrees.", "tool_calls": None}
        if not any(each["role"] == "tool" for each in asked["messages"]):
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        end = "tool_calls" if message["tool_calls"] else "stop"
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "usage": usage}
        if asked.get("stream"):
            whole["object"] = "chat.completion.chunk"
            delta = {**message, "tool_calls": [{**call, "index": 0}] if message["tool_calls"] else None}
            choices = (
                [{"index": 0, "delta": delta, "finish_reason": None}],
                [{"index": 0, "delta": {}, "finish_reason": end}],
            )
            pieces = [{**whole, "usage": None, "choices": each} for each in choices]
            lines = [json.dumps(each) for each in (*pieces, {**whole, "choices": []})] + ["[DONE]"]
            body, kind = "".join(f"data: {line}\n\n" for line in lines).encode(), "text/event-stream"
        else:
            whole["choices"] = [{"index": 0, "message": message, "finish_reason": end}]
            body, kind = json.dumps(whole).encode(), "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return "19 degrees"


async def pydantic_ai(url):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    Agent.instrument_all()
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="k"))
    await Agent(model, name="main", tools=[get_weather]).run(MESSAGE)


async def strands(url):
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(client_args={"base_url": url, "api_key": "k"}, model_id="m")
    await Agent(name="main", model=model, tools=[tool(get_weather)], callback_handler=None).invoke_async(MESSAGE)


async def agent_framework(url):
    from agent_framework import Agent
    from agent_framework.observability import enable_instrumentation
    from agent_framework.openai import OpenAIChatCompletionClient

    enable_instrumentation()
    client = OpenAIChatCompletionClient(model="m", base_url=url, api_key="k")
    await Agent(client=client, name="main", tools=[get_weather]).run(MESSAGE)


PEERS = {"pydantic-ai": pydantic_ai, "strands": strands, "agent-framework": agent_framework}


def main():
    spec = importlib.util.spec_from_file_location("conformance", CHECKER)
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    exporter, reader, provider = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    service = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    asyncio.run(PEERS[sys.argv[1]](f"http://127.0.0.1:{service.server_port}/v1"))
    spans, data = exporter.get_finished_spans(), reader.get_metrics_data()
    scopes = [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]
    found = [metric for scope in scopes for metric in scope.metrics]
    for version in ("2026-10", "1.41"):
        facts = checker.load(version)
        problems = collections.Counter(problem for span in spans for problem in checker.span_problems(span, facts))
        problems.update(problem for metric in found for problem in checker.metric_problems(metric, facts))
        foreign = {name for span in spans for name in span.attributes if name not in facts["attributes"]}
        print(f"{sys.argv[1]}, {version}: {len(spans)} spans, {len(found)} metrics, {problems.total()} violations,")
        print(f"  {len(foreign)} attributes outside: {', '.join(sorted(foreign))}")
        for problem, count in problems.most_common():
            print(f"  {count} × {problem[:160]}")
    print([span.name for span in spans])


if __name__ == "__main__":
    main()
