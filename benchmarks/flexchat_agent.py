"""FlexChat in the framework-overhead benchmark: copy this file to the benchmark's contestants folder.

FLEXCHAT_SRC=<this checkout> python3 run.py --only flexchat_agent
"""

NAME = "flexchat"
KIND = "ours"
REQUIRES = ["$FLEXCHAT_SRC/core", "$FLEXCHAT_SRC/plugins/flexchat-sdk", "$FLEXCHAT_SRC/flexchat-openai"]
EXTRA = []
IMPORT = "import flexchat"
VALIDATES = "own fast path, else jsonschema"
TOOLS_FROM = "specs"

from _common import API_KEY, MODEL, SYSTEM, USER, WEATHER_DESCRIPTION, WEATHER_SCHEMA, filler_specs, get_weather
from flexchat import FlexChat, TextDelta, ToolDefinition
from flexchat.config.model import LimitsTable
from flexchat.plugin import Implementation, ImplementationType, hookimpl
from flexchat.plugin.host import PluginHost


class Settings:
    """A tool's function, by reference."""


async def call_function(settings, params, context):
    return await get_weather(**params)


class Functions:
    """A plugin: the implementation type "function" runs get_weather."""

    @hookimpl
    def flexchat_register_implementation_types(self):
        yield ImplementationType(name="function", settings_class=Settings, run=call_function)


def definition(name, description, parameters):
    implementation = Implementation(type="function", settings=Settings())
    return ToolDefinition(
        name=name,
        description=description,
        parameters=parameters,
        implementation=implementation,
        repeatable=True,  # the mock model asks for the same weather up to a hundred times
    )


class Contestant:
    def __init__(self, base_url, n_tools=1, max_iters=100):
        host = PluginHost()
        host.load_installed()
        host.register(Functions(), "functions")
        tools = [definition("get_weather", WEATHER_DESCRIPTION, WEATHER_SCHEMA)]
        tools += [definition(s["name"], s["description"], s["parameters"]) for s in filler_specs(n_tools - 1)]
        self.chat = FlexChat.from_model(
            f"openai/{MODEL}",
            base_url=base_url,
            api_key=API_KEY,
            prompt=SYSTEM,
            tools=tools,
            max_iterations=max_iters,
            plugins=host,
            limits=LimitsTable(tool_calls_per_turn=1000),
        )

    async def converse(self):
        response = (await self.chat.respond(USER)).response
        return response.content, [(r.tool, r.params, r.result.result) for r in response.tool_calls]

    async def stream(self):
        async for event in self.chat.stream(USER):
            if type(event) is TextDelta:
                yield event.text

    async def close(self):
        await self.chat.aclose()


def build_tools(specs):
    from flexchat.tools.registry import ToolRegistry
    from flexchat_openai.tools import encode_tools

    registry = ToolRegistry({"openai": encode_tools})
    for spec in specs:
        registry.register(definition(spec["name"], spec["description"], spec["parameters"]))
    return registry.to_provider_format("openai")
