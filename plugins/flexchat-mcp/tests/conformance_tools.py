"""The tools that the official conformance suite expects of a server, as a user of FlexChat writes tools."""

import asyncio
import base64

from flexchat.host import current_call
from flexchat.plugin import EffectUnknownError, MediaPart, ToolContext, ToolError, WithMedia

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0"


def text(name, **properties):
    return {"type": "object", "properties": {name: {"type": "string", **properties}}, "required": [name]}


NAME = text("name")


async def ask(message, schema=None, **details):
    """Ask as a tool does that is written for MCP clients: with a name for the request, or another request."""
    return await current_call.get().ask(message, schema, details=details)


async def test_simple_text():
    return "This is a simple text response for testing."


async def test_image_content():
    return MediaPart(kind="image", mime_type="image/png", data=PNG)


async def test_audio_content():
    return MediaPart(kind="audio", mime_type="audio/wav", data=WAV)


def embedded(uri, mime_type, content):
    return MediaPart(kind="document", mime_type=mime_type, data=content.encode(), name=uri)


async def test_embedded_resource():
    return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


async def test_multiple_content_types():
    image = MediaPart(kind="image", mime_type="image/png", data=PNG)
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return WithMedia("Multiple content types test:", [image, resource])


async def test_error_handling():
    raise ToolError("This tool intentionally returns an error for testing")


async def test_tool_with_progress(context: ToolContext):
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100)
        await asyncio.sleep(0.12)
    return "done"


async def test_elicitation(message: str, context: ToolContext):
    fields = {name: {"type": "string", "description": f"User's {name}"} for name in ("username", "email")}
    reply = await context.ask(message, {"type": "object", "properties": fields, "required": [*fields]})
    if reply.why:
        raise ToolError(reply.why)
    return f"User response: {reply.action}, {dict(reply.content)}"


async def test_elicitation_sep1034_defaults(context: ToolContext):
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    reply = await context.ask("Confirm", {"type": "object", "properties": fields, "required": []})
    return f"Elicitation completed: action={reply.action}, content={dict(reply.content)}"


async def test_elicitation_sep1330_enums(context: ToolContext):
    options, values = ["option1", "option2", "option3"], ["value1", "value2", "value3"]
    titled = [
        {"const": value, "title": title}
        for value, title in zip(values, ("First Option", "Second Option", "Third Option"), strict=True)
    ]
    legacy = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **legacy},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    reply = await context.ask("Choose", {"type": "object", "properties": fields, "required": []})
    return f"Elicitation completed: action={reply.action}, content={dict(reply.content)}"


async def test_input_required_result_elicitation():
    reply = await ask("What is your name?", NAME, name="user_name")
    return f"Hello, {reply.content['name']}!"


def sampling(question, tokens=100):
    message = {"role": "user", "content": {"type": "text", "text": question}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


ROOTS = {"method": "roots/list", "params": {}}


async def test_input_required_result_sampling():
    request = sampling("What is the capital of France?")
    reply = await ask("What is the capital of France?", name="capital_question", request=request)
    return str(reply.content)


async def test_input_required_result_list_roots():
    return str((await ask("Which roots?", name="client_roots", request=ROOTS)).content)


CONFIRM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


async def test_input_required_result_request_state():
    await ask("Please confirm", CONFIRM, name="confirm")
    return "state-ok"


async def test_input_required_result_tampered_state():
    await ask("Please confirm", CONFIRM, name="confirm")
    return "state-ok"


async def test_input_required_result_multiple_inputs():
    replies = await asyncio.gather(
        ask("What is your name?", NAME, name="user_name"),
        ask("Generate a greeting", name="greeting", request=sampling("Generate a greeting", 50)),
        ask("Which roots?", name="client_roots", request=ROOTS),
    )
    return str([dict(reply.content) for reply in replies])


async def test_input_required_result_multi_round():
    name = await ask("Step 1: What is your name?", NAME, name="step1")
    color = await ask("Step 2: What is your favorite color?", text("color"), name="step2")
    return f"{name.content['name']} likes {color.content['color']}"


async def test_input_required_result_prompt():
    reply = await ask("What context should the prompt use?", text("context"), name="user_context")
    return f"Use this context: {reply.content.get('context')}"


async def test_input_required_result_capabilities():
    await asyncio.gather(
        ask("What is your name?", NAME, name="user_name"),
        ask("Generate a greeting", name="greeting", request=sampling("Generate a greeting", 50)),
    )
    return "both"


async def prompt_resource(resourceUri: str):
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return WithMedia("Please process the embedded resource above.", [resource])


async def prompt_image():
    return WithMedia("Please analyze the image above.", [MediaPart(kind="image", mime_type="image/png", data=PNG)])


async def binary_resource():
    return MediaPart(kind="image", mime_type="image/png", data=PNG)


async def template_resource(id: str):
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


async def test_missing_capability():
    return str((await ask("Which capital?", request=sampling("Which capital?"))).content)


async def test_streaming_elicitation(context: ToolContext):
    await context.report_progress(1)
    return str((await ask("What is your name?", NAME)).content)


async def test_logging_tool():
    return "logged"


async def test_tool_with_task():
    reply = await ask("What is your name?", NAME, name="user_name")
    return f"Hello, {reply.content['name']}!"


async def greet(name: str):
    return f"Hello, {name}!"


async def slow_compute(seconds: float, label: str = ""):
    await asyncio.sleep(seconds)
    return f"{label}: computed for {seconds} s"


async def failing_job():
    await asyncio.sleep(1)
    raise ToolError("this job always fails")


async def protocol_error_job():
    raise EffectUnknownError("the job has disappeared")


async def confirm_delete(filename: str = ""):
    reply = await ask(f"Delete {filename}?", {"type": "object", "properties": {"confirm": {"type": "boolean"}}})
    return f"{filename}: {reply.action}"


async def multi_input():
    first, second = await asyncio.gather(ask("Your name?", NAME), ask("Your other name?", NAME))
    return f"{first.action} {second.action}"


STRING = {"type": "string"}
PARAMETERS = {
    "test_elicitation": {"message": STRING},
    "prompt_resource": {"resourceUri": STRING},
    "template_resource": {"id": STRING},
    "greet": {"name": STRING},
    "slow_compute": {"seconds": {"type": "number"}, "label": STRING},
    "confirm_delete": {"filename": STRING},
}
OPTIONAL = ("label", "filename")
TOOLS = [
    *(name for name in globals() if name.startswith("test_")),
    *("prompt_resource", "prompt_image", "binary_resource", "template_resource", "greet", "slow_compute"),
    *("failing_job", "protocol_error_job", "confirm_delete", "multi_input"),
]
HIDDEN = (
    "prompt_resource",
    "prompt_image",
    "binary_resource",
    "template_resource",
    "test_input_required_result_prompt",
)


def tool(name):
    properties = PARAMETERS.get(name, {})
    required = [each for each in properties if each not in OPTIONAL]
    return {
        "name": name,
        "description": f"The suite's {name}.",
        "effect": "write" if name in ("protocol_error_job", "test_tool_with_task") else "read",
        "asks_first": name == "test_tool_with_task",
        "parameters": {"type": "object", "properties": properties, "required": required},
        "implementation": {"type": "python", "function": f"conformance_tools:{name}"},
    }


def config(database):
    """Return the configuration of the server."""
    prompts = [
        {"name": "test_simple_prompt", "text": "This is a simple prompt for testing."},
        {
            "name": "test_prompt_with_arguments",
            "text": "Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'",
            "arguments": [
                {"name": "arg1", "description": "First", "required": True, "values": ["paris", "park", "party"]},
                {"name": "arg2", "description": "Second", "required": True},
            ],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "tool": "prompt_resource",
            "arguments": [{"name": "resourceUri", "description": "Its URI", "required": True}],
        },
        {"name": "test_prompt_with_image", "tool": "prompt_image"},
        {"name": "test_input_required_result_prompt", "tool": "test_input_required_result_prompt"},
    ]
    content = "This is the content of the static text resource."
    resources = [
        {"uri": "test://static-text", "name": "static text", "mime_type": "text/plain", "text": content},
        {"uri": "test://static-binary", "name": "static image", "mime_type": "image/png", "tool": "binary_resource"},
        {
            "uri": "test://template/{id}/data",
            "name": "template",
            "mime_type": "application/json",
            "tool": "template_resource",
        },
        {"uri": "test://watched-resource", "name": "watched", "text": "watched"},
    ]
    for each in (*prompts, *resources):
        each["description"] = f"The suite's {each['name']}."
    tasks = dict.fromkeys(("slow_compute", "protocol_error_job", "confirm_delete", "multi_input"), "optional")
    return {
        "llms": {"bot": {"provider": "rehearsal"}},
        "responses": [{"llm": "bot", "model": "any", "tools": {"enabled": False}}],
        "conversations": {"provider": "sqlite", "path": str(database)},
        "tools": {"registry": [tool(name) for name in TOOLS], "default_timeout_ms": 90_000},
        "mcp_server": {
            "tools": [name for name in TOOLS if name not in HIDDEN],
            "prompts": prompts,
            "resources": resources,
            "tasks": {**tasks, "failing_job": "required", "test_tool_with_task": "required"},
        },
    }
