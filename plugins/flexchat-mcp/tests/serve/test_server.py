"""The server through the SDK's own client, in both eras."""

import base64

import pytest
from flexchat_testing import calls, says
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_fixtures import serve
from mcp_types import ElicitResult

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])


def answering(asked, **content):
    async def answer(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content=content)

    return answer


@BOTH
async def test_tools_are_listed_in_a_fixed_order_with_their_effects(open_chat, mode):
    async with open_chat() as chat, Client(serve(chat).server, mode=mode) as client:
        listed = (await client.list_tools()).tools

        assert [each.name for each in listed] == ["ask", "get_result", "add", "name", "note", "pay", "wait"]
        by_name = {each.name: each for each in listed}
        assert by_name["add"].annotations.read_only_hint is True
        assert by_name["note"].annotations.destructive_hint is True
        assert by_name["add"].input_schema["required"] == ["a"]


@BOTH
async def test_a_call_returns_the_result_of_the_tool(open_chat, mode):
    async with open_chat() as chat, Client(serve(chat).server, mode=mode) as client:
        result = await client.call_tool("add", {"a": 1})
        wrong = await client.call_tool("add", {"a": "x"})

        assert (result.content[0].text, result.is_error) == ("3", False)
        assert wrong.is_error
        assert "Invalid parameters" in wrong.content[0].text
        with pytest.raises(MCPError, match="Unknown tool: fly"):
            await client.call_tool("fly", {})


@BOTH
async def test_the_client_is_asked_for_answers_and_approvals(open_chat, ran, mode):
    asked = []
    async with (
        open_chat() as chat,
        Client(serve(chat).server, mode=mode, elicitation_callback=answering(asked, name="Ann")) as client,
    ):
        hello = await client.call_tool("name", {})
        paid = await client.call_tool("pay", {"amount": 5})

        assert (hello.content[0].text, paid.content[0].text) == ("Hello, Ann!", "paid 5")
        assert (asked, ran) == (["What is your name?", 'Run pay with {"amount": 5}?'], [("default", 5)])


@BOTH
async def test_a_client_that_cannot_be_asked_is_told_what_to_call(open_chat, ran, mode):
    async with open_chat() as chat, Client(serve(chat).server, mode=mode) as client:
        waiting = await client.call_tool("pay", {"amount": 5})
        (question,) = await chat.pending()
        id = waiting.content[0].text.rsplit(" ", 1)[1]

        assert waiting.is_error
        assert (question.turn, ran) == (id, [])
        await chat.answer(question.id, _yes())
        result = await client.call_tool("get_result", {"call": id})
        assert (result.content[0].text, ran) == ("paid 5", [("default", 5)])


@BOTH
async def test_the_chat_is_a_tool_that_goes_on_with_its_conversation(open_chat, mode):
    async with open_chat(says("First."), says("Second.")) as chat, Client(serve(chat).server, mode=mode) as client:
        first = (await client.call_tool("ask", {"message": "Hi"})).structured_content
        second = (await client.call_tool("ask", {"message": "Ho", **_conversation(first)})).structured_content

        assert (first["answer"], second["answer"]) == ("First.", "Second.")
        assert first["conversation"] == second["conversation"]
        assert len(await chat.conversations.turns(first["conversation"])) == 2


async def test_a_chat_reports_its_steps_and_asks_for_the_approval_of_its_tools(open_chat, ran):
    steps, asked = [], []

    async def progress(done, total, message):
        steps.append((done, message))

    replies = [calls(("pay", {"amount": 7})), says("Paid.")]
    async with open_chat(*replies) as chat, Client(serve(chat).server, elicitation_callback=answering(asked)) as client:
        answer = await client.call_tool("ask", {"message": "Pay 7"}, progress_callback=progress)

        assert (answer.structured_content["answer"], ran, len(asked)) == ("Paid.", [("default", 7)], 1)
        assert steps[0] == (1, "calls pay")
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)


async def test_a_tool_reports_its_progress(open_chat):
    steps = []

    async def progress(done, total, message):
        steps.append((done, total, message))

    async with open_chat() as chat, Client(serve(chat).server) as client:
        result = await client.call_tool("wait", {"seconds": 0}, progress_callback=progress)

        assert (result.content[0].text, steps) == ("waited", [(1.0, 2.0, "half")])


@BOTH
async def test_prompts_are_filled_in_and_completed(open_chat, mode):
    async with open_chat() as chat, Client(serve(chat).server, mode=mode) as client:
        (prompt,) = (await client.list_prompts()).prompts
        filled = await client.get_prompt("review", {"what": "this"})

        assert (prompt.name, prompt.arguments[0].required) == ("review", True)
        assert filled.messages[0].content.text == "Review this."
        with pytest.raises(MCPError, match="missing arguments: what"):
            await client.get_prompt("review", {})


@BOTH
async def test_resources_of_the_config_are_read(open_chat, mode):
    async with open_chat() as chat, Client(serve(chat).server, mode=mode) as client:
        (resource,) = (await client.list_resources()).resources
        read = await client.read_resource("memo://rules")

        assert (str(resource.uri), read.contents[0].text) == ("memo://rules", "Be kind.")
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("memo://other")


async def test_documents_of_a_store_are_resources(open_chat, config, tmp_path):
    from flexchat import Document

    config["stores"] = {"docs": {"provider": "sqlite", "path": str(tmp_path / "d.db"), "search": "keyword"}}
    async with open_chat() as chat:
        names = [f"d{number:03d}" for number in range(150)]
        documents = [Document(text=f"Text of {name}", title=name, id=f"{name}/ä b") for name in names]
        await chat.stores["docs"].add(documents, collection="hand/book")
        async with Client(serve(chat).server) as client:
            listed, cursor = [], None
            while True:
                page = await client.list_resources(cursor=cursor)
                listed += page.resources
                cursor = page.next_cursor
                if cursor is None:
                    break
            of_store = [each for each in listed if str(each.uri).startswith("flexchat://")]

            assert [each.name for each in of_store] == names
            read = await client.read_resource(str(of_store[77].uri))
            assert read.contents[0].text == "Text of d077"
            for wrong in ("flexchat://docs/other/d001", "flexchat://docs/hand%2Fbook/nope", "flexchat://x/y/z"):
                with pytest.raises(MCPError, match="Resource not found"):
                    await client.read_resource(wrong)
            with pytest.raises(MCPError, match="cursor"):
                await client.list_resources(cursor="docs/other/")


PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + b"\x00\x00\x00\x01\x00\x00\x00\x01" + bytes(20)


def _in_base64(data, **more):
    return {"data": base64.b64encode(data).decode(), **more}


@BOTH
@pytest.mark.parametrize("keeps", [True, False])
async def test_the_chat_is_handed_attachments(open_chat, config, mode, keeps):
    if not keeps:
        del config["conversations"]
    async with open_chat(says("A dot.")) as chat, Client(serve(chat).server, mode=mode) as client:
        attachments = [_in_base64(PNG, name="dot.png", mimeType="image/png"), _in_base64(b"Where?")]
        answer = await client.call_tool("ask", {"message": "Look", "attachments": attachments})

        assert answer.structured_content["answer"] == "A dot."
        (request,) = chat.llms["bot"].provider.requests
        (part,) = request.messages[-1].media
        assert (part.data, part.name, part.mime_type) == (PNG, "dot.png", "image/png")
        assert "Where?" in request.messages[-1].content


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    ("attachments", "text"),
    [
        ("x", "attachments is a list of up to 100 objects"),
        ([_in_base64(PNG)] * 101, "attachments is a list of up to 100 objects"),
        (["x"], "attachments[0] is an object with the texts data, mimeType and name"),
        ([{}], "attachments[0]: it is empty"),
        ([_in_base64(PNG, url="https://x.example")], "attachments[0] is an object with the texts"),
        ([_in_base64(PNG), _in_base64(PNG, name=7)], "attachments[1] is an object with the texts"),
        ([{"data": "~~~"}], "attachments[0].data is not in Base64"),
        ([_in_base64(PNG, mimeType="image/gif")], "attachments[0]: it is declared as image/gif"),
        ([_in_base64(bytes(9))], "attachments[0]: its type is unknown"),
        ([_in_base64(b"a" * 2_000)], "at most 1,000 are allowed (media.max_bytes)"),
    ],
)
async def test_what_cannot_be_attached_is_refused_in_a_sentence(open_chat, config, attachments, text, keeps):
    config["media"] = {"max_bytes": 1_000}
    if not keeps:
        del config["conversations"]
    async with open_chat(says("-")) as chat, Client(serve(chat).server) as client:
        refused = await client.call_tool("ask", {"message": "Look", "attachments": attachments})

        assert refused.is_error
        assert text in refused.content[0].text
        assert chat.llms["bot"].provider.requests == []


async def test_without_conversations_the_chat_answers_and_a_question_cannot_wait(open_chat, config, ran):
    del config["conversations"]
    async with (
        open_chat(says("Hi.")) as chat,
        Client(serve(chat).server, elicitation_callback=answering([], name="Ann")) as client,
    ):
        assert [each.name for each in (await client.list_tools()).tools][:2] == ["ask", "add"]
        assert (await client.call_tool("ask", {"message": "Hi"})).structured_content["answer"] == "Hi."
        refused = await client.call_tool("pay", {"amount": 5})
        assert refused.is_error
        assert "keeps no conversations" in refused.content[0].text
        assert ran == []


def _conversation(structured):
    return {"conversation": structured["conversation"]}


def _yes():
    from flexchat.plugin import Reply

    return Reply(action="accept")
