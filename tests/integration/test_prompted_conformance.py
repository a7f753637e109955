"""Prompted tool calls under the laws of providers: the wrapper around each adapter."""

import json
import re
from typing import ClassVar

import pytest
from flexchat_anthropic import conformance as anthropic
from flexchat_gemini import conformance as gemini
from flexchat_ollama import conformance as ollama
from flexchat_openai import conformance as openai
from flexchat_sdk import ChatOptions, prompted_tools
from flexchat_testing.laws.request_laws import FIRST, HELLO, SECOND

BLOCK = re.compile(r"```tool_call\n(.*?)\n```", re.DOTALL)


class Prompted:
    """Writes calls into texts, and reads them from the texts of requests."""

    def make_provider(self, transport):
        return prompted_tools(super().make_provider(transport))

    def tool_reply(self, calls, *, text="", finish="tool_calls"):
        blocks = [f"```tool_call\n{json.dumps({'name': name, 'arguments': args})}\n```" for name, args in calls]
        words = {} if finish == "tool_calls" else {"finish": finish}
        return self.text_reply("\n".join([*([text] if text else []), *blocks]), **words)

    def read_tool_calls(self, body):
        blocks = [block for text in texts(body) for block in BLOCK.findall(text)]
        written = [block for block in blocks if '"NAME"' not in block]  # that of the explanation
        values = [{"name": "", "arguments": {}} if "{broken" in block else json.loads(block) for block in written]
        return [(str(n), value["name"], value["arguments"]) for n, value in enumerate(values)]

    def read_tool_results(self, body):
        lines = [line for text in texts(body) if text.startswith("Results of") for line in text.splitlines()[1:]]
        values = [json.loads(line)["result"] for line in lines]
        return [(str(n), one if isinstance(one, str) else json.dumps(one)) for n, one in enumerate(values)]

    @pytest.mark.xfail(reason="the tools are in the prompt, in words of their own")
    async def test_the_tools_are_sent(self, stream):
        await super().test_the_tools_are_sent(stream)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_the_tools_are_in_the_prompt_and_nowhere_else(self, stream):
        options = ChatOptions(tools=await self.encoded(FIRST, SECOND))
        body = (await self.sent(HELLO, options, stream=stream))[0].body

        for tool in (FIRST, SECOND):
            (text,) = [one for one in texts(body) if f"- {tool.name}: {tool.description}\n" in one]
            assert json.dumps(tool.parameters["properties"])[:-1] in text.replace(', "additionalProperties": false', "")
        assert not body.get("tools")


def texts(value):
    """Yield every text of JSON data."""
    if isinstance(value, str):
        yield value
    else:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from texts(each)


def supported(kit):
    return kit.supports - {"opaque"}  # service data of calls, which are texts here


class TestChatCompletions(Prompted, openai.ChatCompletionsConformance):
    supports: ClassVar = supported(openai.ChatCompletionsConformance)


class TestResponses(Prompted, openai.ResponsesConformance):
    supports: ClassVar = supported(openai.ResponsesConformance)


class TestOllama(Prompted, ollama.OllamaConformance):
    supports: ClassVar = supported(ollama.OllamaConformance)


class TestGemini(Prompted, gemini.GeminiConformance):
    supports: ClassVar = supported(gemini.GeminiConformance)


class TestAnthropic(Prompted, anthropic.AnthropicConformance):
    supports: ClassVar = supported(anthropic.AnthropicConformance)
