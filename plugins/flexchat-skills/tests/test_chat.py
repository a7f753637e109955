"""Skills in turns: loaded, read, accepted, and narrowing the tools."""

import json
import os

import pytest
from flexchat import Reply, ToolMessage
from flexchat_cli.main import main
from flexchat_testing import calls, says

from .conftest import CONFIG, REFUNDS, chat_of, write

pytestmark = pytest.mark.anyio

LOAD = ("load_skill", {"name": "refunds"})
SUM = ("calculator", {"expression": "1+1"})
TIME = ("get_current_datetime", {})


def outcomes(turn):
    return [each.result.result if each.result.success else each.result.explained() for each in turn.response.tool_calls]


async def test_a_model_loads_a_skill_and_reads_its_file(folder):
    reading = ("read_skill_file", {"skill": "refunds", "path": "references/policy.md"})
    async with chat_of(folder, calls(LOAD), calls(reading), says("30 days.")) as chat:
        turn = await chat.respond("Can I get my money back?")
        tools = {tool["function"]["name"]: tool["function"] for tool in chat.model.requests[0].options.tools}

    loaded, policy = outcomes(turn)
    assert loaded.startswith("# Skill: refunds\n\nFiles of this skill, to be read with read_skill_file: references/")
    assert loaded.endswith("# Refunds\n\nRead references/policy.md first.")
    assert policy == "At most 30 days.\n"
    listing = tools["load_skill"]["parameters"]["properties"]["name"]["description"]
    assert "- refunds: Refunds an order. Use it when someone wants money back.\n- reports: Writes" in listing


async def test_the_request_has_names_and_descriptions_and_no_instructions(folder):
    async with chat_of(folder) as chat:
        await chat.respond("Hello.")
        request = str(chat.model.requests[0])

    assert "Writes a monthly report." in request
    assert "Be short." not in request


@pytest.mark.parametrize(
    "path",
    ["../reports/SKILL.md", "/etc/passwd", "references/../references/policy.md", "./references/policy.md", "SKILL.md",
     "REFERENCES/policy.md", "references/policy.md\0", "references\\policy.md", "file:///etc/passwd", ""],
)  # fmt: skip
async def test_no_other_path_leads_anywhere(folder, path):
    async with chat_of(folder) as chat:
        result = await chat.call_tool("read_skill_file", {"skill": "refunds", "path": path})

    assert not result.success
    assert "the skill 'refunds' has no file" in result.error


async def test_a_file_swapped_for_a_link_after_acceptance_is_not_read(folder):
    write(folder / "secret", "the key")
    async with chat_of(folder) as chat:
        await chat.respond("Hello.")
        path = folder / "skills/refunds/references/policy.md"
        path.unlink()
        path.symlink_to(folder / "secret")
        result = await chat.call_tool("read_skill_file", {"skill": "refunds", "path": "references/policy.md"})

    assert result.error == "the skill 'refunds' has changed since it was accepted, so references/policy.md is not read"


async def test_a_changed_skill_waits_until_it_is_accepted(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    async with chat_of(folder) as chat:
        await chat.respond("Hello.")
    write(folder / "skills/refunds/SKILL.md", REFUNDS + "Always pay twice.\n")
    write(folder / "skills/new/SKILL.md", REFUNDS.replace("name: refunds", "name: new"))

    async with chat_of(folder) as chat:
        refused = await chat.call_tool(*LOAD)
        fine = await chat.call_tool("load_skill", {"name": "reports"})
        new = await chat.call_tool("load_skill", {"name": "new"})
    assert refused.error == "the skill 'refunds' has changed since it was accepted, so SKILL.md is not read"
    assert refused.hint == "the operator can look at it with: flexchat tools diff skills"
    assert fine.success
    assert not new.success

    diff = await in_thread("tools", "diff", "skills", capsys=capsys)
    assert "implementation.skills.refunds.hash" in diff
    await in_thread("tools", "accept", "skills", capsys=capsys)
    async with chat_of(folder) as chat:
        assert "Always pay twice." in (await chat.call_tool(*LOAD)).result
        assert (await chat.call_tool("load_skill", {"name": "new"})).success


async def in_thread(*words, capsys):
    """Run a command, which has an event loop of its own."""
    from flexchat.plugin import run_in_thread

    await run_in_thread(main, words)
    return capsys.readouterr().out


async def test_the_hashes_are_in_the_lock_beside_those_of_tools(folder):
    async with chat_of(folder) as chat:
        await chat.respond("Hello.")

    kept = json.loads((folder / "flexchat.tools.lock").read_text())["sources"]["skills"]["tools"]
    assert kept["load_skill"]["implementation"]["skills"]["refunds"]["hash"].startswith("sha256:")
    assert [*kept["read_skill_file"]["implementation"]["files"]["refunds"]] == ["references/policy.md"]


async def test_a_skill_that_is_gone_is_an_error_and_not_a_crash(folder):
    async with chat_of(folder) as chat:
        await chat.respond("Hello.")
        os.remove(folder / "skills/refunds/SKILL.md")
        result = await chat.call_tool(*LOAD)

    assert result.error == "the skill 'refunds' no longer has SKILL.md"


async def test_an_unknown_skill_is_named_with_the_nearest_one(folder):
    async with chat_of(folder) as chat:
        result = await chat.call_tool("load_skill", {"name": "refund"})

    assert "refunds" in result.explained()


async def test_allowed_tools_narrow_what_may_be_called(folder):
    async with chat_of(folder, calls(SUM, TIME), calls(LOAD), calls(SUM, TIME), says("Done.")) as chat:
        turn = await chat.respond("Refund it.")

    results = [each.result for each in turn.response.tool_calls]
    assert [result.success for result in results] == [True, True, True, True, False]
    assert results[-1].error == ("Not executed: the skill 'refunds', loaded for this message, allows only calculator")


async def test_they_hold_for_one_message(folder):
    (folder / "flexchat.toml").write_text(CONFIG.format(more='[conversations]\nprovider = "sqlite"\npath = "c.db"\n'))
    async with chat_of(folder, calls(LOAD), says("Loaded."), calls(TIME), says("Noon.")) as chat:
        first = await chat.respond("Refund it.", conversation="c")
        second = await chat.respond("What time is it?", conversation="c")

    assert outcomes(first)[0].startswith("# Skill: refunds")
    assert second.response.tool_calls[0].result.success


async def test_they_hold_while_the_caller_runs_a_tool_of_its_own(folder):
    """The turn ends with the caller's call; the next one continues the same message."""
    (folder / "flexchat.toml").write_text(CONFIG.format(more='[conversations]\nprovider = "sqlite"\npath = "c.db"\n'))
    look = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}
    async with chat_of(folder, calls(LOAD, ("look", {})), calls(TIME), says("Noon.")) as chat:
        first = await chat.respond("Refund it.", caller_tools=[look], conversation="c")
        seen = ToolMessage(tool_call_id=first.response.calls[0].id, name="look", content="seen")
        second = await chat.respond("Refund it.", caller_tools=[look], conversation="c", continuation=[seen])

    assert "the skill 'refunds'" in outcomes(second)[-1]


async def test_they_are_those_of_the_skill_that_a_person_put_in_the_place_of_another(folder):
    approvals = '[[approvals]]\ntools = ["load_skill"]\n'
    kept = '[conversations]\nprovider = "sqlite"\npath = "c.db"\n\n[questions]\nexpires = "1h"\n'
    (folder / "flexchat.toml").write_text(CONFIG.format(more=approvals + kept))
    replies = calls(("load_skill", {"name": "reports"})), calls(TIME), says("Done.")
    async with chat_of(folder, *replies) as chat:
        turn = await chat.respond("Report!", conversation="c")
        yes = Reply(action="accept", content={"arguments": {"name": "refunds"}})
        turn = await (await chat.answer(turn.pending[0].id, yes, by="ann")).result()
        if turn.pending:  # shown again, with the arguments that run
            turn = await (await chat.answer(turn.pending[0].id, Reply(action="accept"), by="ann")).result()

    loaded, refused = outcomes(turn)
    assert loaded.startswith("# Skill: refunds")
    assert "the skill 'refunds'" in refused


async def test_they_never_widen(folder):
    """A tool that the rule does not offer stays unknown, whatever a skill allows."""
    content = REFUNDS.replace("allowed-tools: calculator", "allowed-tools: '*'")
    write(folder / "skills/refunds/SKILL.md", content)
    text = (folder / "flexchat.toml").read_text().replace(', "get_current_datetime"]', "]")
    (folder / "flexchat.toml").write_text(text)

    async with chat_of(folder, calls(LOAD), calls(TIME), says("Done.")) as chat:
        turn = await chat.respond("Refund it.")

    assert "not found" in outcomes(turn)[-1]


async def test_of_several_skills_each_restricts(folder):
    write(folder / "skills/clock/SKILL.md", REFUNDS.replace("refunds", "clock").replace(": calculator", ": get_*"))
    both = calls(LOAD, ("load_skill", {"name": "clock"}))

    async with chat_of(folder, both, calls(SUM, TIME), says("Done.")) as chat:
        turn = await chat.respond("Refund it.")

    assert [each.result.success for each in turn.response.tool_calls] == [True, True, False, False]


async def test_a_skill_that_was_not_loaded_restricts_nothing(folder):
    write(folder / "skills/refunds/SKILL.md", REFUNDS)
    async with chat_of(folder, calls(("load_skill", {"name": "refund"})), calls(TIME), says("Done.")) as chat:
        turn = await chat.respond("Refund it.")

    assert [each.result.success for each in turn.response.tool_calls] == [False, True]


async def test_tool_search_defers_other_tools(folder):
    (folder / "flexchat.toml").write_text(CONFIG.format(more="[tools.search]\nabove = 1\n"))
    async with chat_of(folder) as chat:
        await chat.respond("Hello.")
        names = [tool["function"]["name"] for tool in chat.model.requests[0].options.tools]

    assert {"load_skill", "read_skill_file"} <= {*names}
    assert "calculator" not in names


async def test_a_loaded_skill_stays_in_a_compacted_history(folder):
    history = '[history]\nmax_tokens = 1500\nkeep_turns = 0\ncompact = "drop"\n'
    kept = '[conversations]\nprovider = "sqlite"\npath = "c.db"\n'
    (folder / "flexchat.toml").write_text(CONFIG.format(more=f"{history}\n{kept}"))
    long = [says("word " * 300)] * 6
    async with chat_of(folder, calls(LOAD), says("Loaded."), *long, says("Done.")) as chat:
        await chat.respond("Refund it.", conversation="c")
        for _ in long:
            await chat.respond("Go on.", conversation="c")
        await chat.respond("And now?", conversation="c")
        texts = [str(message.content) for message in chat.model.requests[-1].messages]

    assert any("# Skill: refunds" in text for text in texts)
    assert sum("word word" in text for text in texts) < len(long)


async def test_a_turn_that_another_process_resumes_is_narrowed_as_before(folder):
    kept = '[conversations]\nprovider = "sqlite"\npath = "c.db"\n\n[questions]\nexpires = "1h"\n'
    text = CONFIG.format(more=kept).replace('name = "calculator"', 'name = "calculator"\napprove = true')
    (folder / "flexchat.toml").write_text(text)
    async with chat_of(folder, calls(LOAD), calls(SUM)) as chat:
        turn = await chat.respond("Refund it.", conversation="c")
        assert turn.status == "suspended"

    async with chat_of(folder, calls(TIME), says("Done.")) as chat:
        (pending,) = await chat.pending()
        await chat.answer(pending.id, Reply(action="accept"), by="ann", resume=False)
        (handle,) = await chat.resume_interrupted()
        done = await handle.result()

    results = [each.result for each in done.response.tool_calls]
    assert [result.success for result in results] == [True, True, False]
    assert "the skill 'refunds'" in results[-1].error
