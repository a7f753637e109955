"""flexchat conversations, and what ask and chat keep."""

import asyncio
import builtins
import json

import click
import pytest
from flexchat import ConversationTurn, MediaPart, UserMessage
from flexchat.store import turn_from_dict
from flexchat_cli.terminal import Terminal
from flexchat_sqlite.conversations import SqliteConversations

REPLIES = [f'{{ text = "answer {n}" }}' for n in range(1, 6)]


@pytest.fixture
def kept(script):
    """Write a configuration that keeps conversations; its script begins again with each command."""
    path = script(*REPLIES)
    path.write_text(path.read_text() + '\n[conversations]\npath = "kept.db"\n')
    return path


def listed(run, *words):
    return json.loads(run("conversations", "list", "--json", *words).out)


@pytest.fixture
def person(run, monkeypatch):
    """A person at the terminal, who types these lines."""

    def call(*words, typed):
        lines = iter(typed)

        def answer(prompt=""):
            line = next(lines, EOFError())
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr(builtins, "input", answer)
        monkeypatch.setattr(click.termui, "visible_prompt_func", answer)
        monkeypatch.setattr(Terminal, "interactive", lambda self: True)
        return run(*words)

    return call


def test_ask_keeps_where_the_configuration_has_conversations_beside_that_file(run, kept, tmp_path):
    turn = json.loads(run("ask", "--json", "first question").out)

    (info,) = listed(run)
    assert info["id"] == turn["conversation"]
    assert (info["title"], info["turns"]) == ("first question", 1)
    assert (tmp_path / "kept.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", [["-n"], ["--no-log"], ["--no-keep"], "variable", "config"])
def test_ask_keeps_every_turn_unless_an_option_or_the_configuration_says_otherwise(
    run, script, data_folder, monkeypatch, how
):
    path = script(*REPLIES)
    kept = json.loads(run("ask", "--json", "x").out)["conversation"]
    if how == "variable":
        monkeypatch.setenv("FLEXCHAT_NO_KEEP", "1")
    if how == "config":
        path.write_text(path.read_text() + "\n[conversations]\nlog = false\n")
    words = how if isinstance(how, list) else []

    assert "conversation" not in json.loads(run("ask", *words, "--json", "x").out)
    assert [info["id"] for info in listed(run)] == [kept]
    assert "conversation" in json.loads(run("ask", "--keep", "--json", "x").out)


def test_a_store_that_cannot_be_used_costs_ask_a_note_and_not_its_answer(run, script, data_folder):
    """It was not asked for; --keep asks for it."""
    script(*REPLIES)
    data_folder.write_text("a file")

    ran = run("ask", "x")

    assert (ran.status, ran.out) == (0, "answer 1\n")
    assert "note: this conversation is not kept: " in ran.err
    assert run("ask", "--keep", "x").status == 1


@pytest.mark.parametrize("word", ["-c", "--continue"])
def test_continue_goes_on_with_the_last_conversation_and_the_model_sees_it(run, kept, word, monkeypatch):
    from flexchat_testing import ScriptedProvider

    seen = []
    original = ScriptedProvider.stream_chat

    def watched(self, messages, model, options):
        seen.append([message.content for message in messages])
        return original(self, messages, model, options)

    monkeypatch.setattr(ScriptedProvider, "stream_chat", watched)
    run("ask", "one")
    run("ask", "two")
    ran = run("ask", word, "three")

    assert seen == [["one"], ["two"], ["two", "answer 1", "three"]]
    assert "continuing" in ran.err
    assert [info["turns"] for info in listed(run)] == [2, 1]


def test_a_conversation_is_named_by_the_beginning_of_its_id(run, kept):
    run("ask", "one")
    run("ask", "two")
    one = listed(run)[1]["id"]

    assert run("ask", "--conversation", one[:10], "more").status == 0
    assert listed(run)[0]["id"] == one


@pytest.mark.slow
def test_an_id_that_is_not_there_or_not_unique_is_a_sentence(run, kept):
    for word in range(20):
        run("ask", str(word))
    ids = [info["id"] for info in listed(run)]
    beginning = next(i[0] for i in ids if sum(j[0] == i[0] for j in ids) > 1)

    unknown, ambiguous = run("ask", "--conversation", "zzz", "x"), run("conversations", "show", beginning)

    assert (unknown.status, unknown.out) == (2, "")
    assert "there is no conversation 'zzz'" in unknown.err
    assert ambiguous.status == 2
    assert f"conversations start with '{beginning}'" in ambiguous.err
    assert run("conversations", "show", "").status == 2


def test_continue_without_any_conversation_begins_one(run, script):
    """And keeps it in the user's data, where no configuration says otherwise."""
    script(*REPLIES)

    ran = run("ask", "-c", "x")

    assert (ran.status, ran.out) == (0, "answer 1\n")
    assert "starting a new one" in ran.err
    assert len(listed(run)) == 1


def test_keep_and_no_keep_go_before_the_configuration(run, kept, data_folder):
    run("ask", "--no-keep", "x")
    assert listed(run) == []
    kept.write_text(kept.read_text().replace("[conversations]", "[other]").replace('path = "kept.db"', ""))
    kept.write_text(kept.read_text().replace("[other]", ""))
    run("ask", "--keep", "x")

    assert len(listed(run)) == 1
    assert (data_folder / "conversations.db").exists()


def test_no_keep_and_continue_contradict_each_other(run, kept):
    assert run("ask", "--no-keep", "-c", "x").status == 2
    assert run("ask", "-c", "--conversation", "a", "x").status == 2


def test_a_person_s_chat_is_kept_and_told_so(person, run, script):
    script(*REPLIES)

    ran = person("chat", typed=["one", "two", "/new", "three"])

    assert "--no-keep keeps nothing" in ran.err
    assert [(i["title"], i["turns"]) for i in listed(run)] == [("three", 1), ("one", 2)]


def test_a_chat_goes_on_where_it_stopped(person, run, script):
    script(*REPLIES)
    person("chat", typed=["one"])

    ran = person("chat", "-c", typed=["two"])

    assert "(1 turn): one" in ran.err
    assert [i["turns"] for i in listed(run)] == [2]


@pytest.mark.parametrize("how", ["option", "variable", "no person"])
def test_a_chat_is_not_kept_where_nobody_wants_it(person, run, script, data_folder, monkeypatch, how):
    script(*REPLIES)
    if how == "no person":
        run("chat", stdin="one\n")
    elif how == "option":
        person("chat", "--no-keep", typed=["one"])
    else:
        monkeypatch.setenv("FLEXCHAT_NO_KEEP", "1")
        person("chat", typed=["one"])

    assert not data_folder.exists()


def test_a_failed_turn_is_kept_and_marked_in_the_list_and_in_what_is_shown(person, run, script):
    script('{ text = "one" }', '{ error = "auth" }')

    person("chat", typed=["a", "b"])

    (info,) = listed(run)
    assert (info["turns"], info["status"]) == (2, "failed")
    assert "(failed) a" in run("conversations", "list").out
    shown = run("conversations", "show", info["id"]).out
    assert "\nb\n" in shown
    assert "*(failed: " in shown
    whole = json.loads(run("--json", "conversations", "show", info["id"]).out)
    assert [t["status"] for t in whole["turns"]] == ["done", "failed"]


def test_a_chat_that_cannot_be_kept_by_default_is_held_all_the_same(person, script, data_folder):
    script(*REPLIES)
    data_folder.parent.mkdir(parents=True, exist_ok=True)
    data_folder.write_text("not a folder")

    ran = person("chat", typed=["one"])

    assert (ran.status, ran.out) == (0, "answer 1\n\n")
    assert "this conversation is not kept" in ran.err


def test_a_chat_that_was_to_be_kept_and_cannot_does_not_begin(person, script, data_folder):
    script(*REPLIES)
    data_folder.parent.mkdir(parents=True, exist_ok=True)
    data_folder.write_text("not a folder")

    ran = person("chat", "--keep", typed=["one"])

    assert (ran.status, ran.out) == (1, "")
    assert "cannot be used" in ran.err


def test_list_shows_a_line_each_and_search_narrows_it(run, kept):
    run("ask", "about cats")
    run("ask", "about dogs")

    ran = run("conversations", "list")
    lines = ran.out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines] == ["about dogs", "about cats"]
    assert "1 turn" in lines[0]
    assert run("conversations", "list", "--search", "CAT answer").out == lines[1] + "\n"
    assert run("conversations", "list", "--limit", "1").out == lines[0] + "\n"
    assert "no conversation is kept that contains these words" in run("conversations", "list", "--search", "fish").err


def test_tenants_do_not_see_each_other(run, kept):
    run("ask", "--tenant", "acme", "secret")

    assert listed(run) == []
    (info,) = listed(run, "--tenant", "acme")
    assert run("conversations", "show", info["id"]).status == 2
    assert run("conversations", "delete", "--yes", info["id"]).status == 2
    assert len(listed(run, "--tenant", "acme")) == 1


def test_show_prints_markdown_or_json(run, kept):
    run("ask", "one")
    id = listed(run)[0]["id"]

    shown = run("conversations", "show", id[:6]).out
    assert shown.startswith("# one\n")
    assert "answer 1" in shown
    data = json.loads(run("conversations", "show", id, "--json").out)
    assert data["turns"][0]["messages"][0] == {"role": "user", "content": "one"}


def test_rename_changes_the_title(run, kept):
    run("ask", "one")
    id = listed(run)[0]["id"]

    assert run("conversations", "rename", id[:8], "A", "better  title").status == 0
    assert listed(run)[0]["title"] == "A better title"
    assert run("conversations", "rename", id, " ").status == 2


def test_delete_asks_first(person, run, kept):
    run("ask", "one")
    id = listed(run)[0]["id"]

    nobody = run("conversations", "delete", id)
    assert nobody.status == 2
    assert "--yes" in nobody.err
    assert "nothing was deleted" in person("conversations", "delete", id, typed=["n"]).err
    assert "nothing was deleted" in person("conversations", "delete", id, typed=[]).err
    assert len(listed(run)) == 1
    assert person("conversations", "delete", id, id, typed=["y"]).status == 0
    assert listed(run) == []


def test_export_writes_markdown_or_a_line_of_json_each(run, kept, tmp_path):
    run("ask", "one")
    run("ask", "two")

    assert run("conversations", "export", "--all", "--output", "all.md").status == 0
    assert (tmp_path / "all.md").read_text().count("answer 1") == 2
    lines = run("conversations", "export", "--all", "--json").out.splitlines()
    assert [json.loads(line)["title"] for line in lines] == ["two", "one"]
    again = run("conversations", "export", "--all", "--output", "all.md")
    assert (again.status, "already exists" in again.err) == (2, True)
    assert run("conversations", "export").status == 2
    assert run("conversations", "export", "--all", "--output", "no/such/file").status == 2


def test_media_are_exported_as_files_beside_the_json(run, kept, tmp_path):
    part = MediaPart(kind="image", mime_type="image/png", data=b"\x89PNG\r\n\x1a\n\x00")
    turn = ConversationTurn(id="1", messages=(UserMessage("Look.", media=(part,)),))

    async def keep():
        store = SqliteConversations(tmp_path / "kept.db")
        await store.append("a", turn, tenant="default")
        await store.append("b", turn, tenant="default")
        await store.aclose()

    asyncio.run(keep())

    assert run("conversations", "export", "--all", "--json", "--output", "all.jsonl").status == 0

    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    files = {file.name: file.read_bytes() for file in (tmp_path / "all.jsonl.media").iterdir()}
    assert files == {part.sha256: part.data}
    assert [turn_from_dict(each, files) for line in lines for each in json.loads(line)["turns"]] == [turn, turn]
    (whole,) = json.loads(run("conversations", "export", "a", "--json").out)["turns"]
    assert turn_from_dict(whole) == turn


def test_a_wrong_table_is_a_sentence_with_its_place_and_other_trouble_does_not_matter(run, script):
    path = script(*REPLIES)
    text = path.read_text()
    path.write_text(text + '[conversations]\nprovider = "sqlit"\n')
    assert "conversations.provider: no conversation store is called 'sqlit'" in run("conversations", "list").err
    path.write_text(text + '[conversations]\npth = "x"\n')
    assert "unknown key 'pth'" in run("conversations", "list").err
    path.write_text(text.replace('provider = "scripted"', 'provider = "${NOT_SET}"') + "[conversations]\n")
    assert run("conversations", "list").status == 0


def test_the_short_option_c_names_no_configuration_any_more(run):
    assert "unknown option '-c'" in run("check", "-c", "x.toml").err


def test_changes_are_told_and_with_json_as_json(run, kept):
    run("ask", "x")
    (info,) = listed(run)
    id = info["id"]

    assert "is called: Tea" in run("conversations", "rename", id, "Tea").err
    assert json.loads(run("conversations", "rename", id, "Tea", "--json").out) == {"id": id, "title": "Tea"}
    assert "1 conversation written to all.md" in run("conversations", "export", "--all", "--output", "all.md").err
    assert json.loads(run("conversations", "delete", id, "--yes", "--json").out) == {"deleted": [id]}


@pytest.mark.parametrize("limit", ["0", "-3"])
def test_a_list_of_less_than_one_is_refused(run, kept, limit):
    """It would say that nothing is kept."""
    ran = run("conversations", "list", f"--limit={limit}")

    assert ran.status == 2
    assert "--limit is at least 1" in ran.err


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_what_ctrl_c_stops_is_kept(run, script, tmp_path, monkeypatch, person, command):
    (tmp_path / "presses_in_kept.py").write_text(
        "import asyncio, signal\n\n\n"
        "async def press():\n    signal.raise_signal(signal.SIGINT)\n    await asyncio.sleep(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    script(
        '{ text = "Wait", tool_calls = [{ name = "press" }] }',
        tools='registry = [{ name = "press", description = "Press.", parameters = { type = "object" }, '
        'implementation = { type = "python", function = "presses_in_kept:press" } }]',
    )

    run("ask", "--keep", "go") if command == "ask" else person("chat", typed=["go"])

    (info,) = listed(run)
    assert (info["title"], info["status"]) == ("go", "cancelled")
    (turn,) = json.loads(run("--json", "conversations", "show", info["id"]).out)["turns"]
    assert [m["role"] for m in turn["messages"]] == ["user", "assistant", "tool"]
    assert "*(stopped before it was done)*" in run("conversations", "show", info["id"]).out


def test_show_without_an_id_shows_the_last(run, kept):
    assert "no conversation is kept yet" in run("conversations", "show").err
    run("ask", "one")
    run("ask", "two")

    assert run("conversations", "show").out.startswith("# two\n")


def test_logs_are_the_last_turns_of_all_conversations_the_newest_last(run, kept):
    assert "no turn is kept" in run("logs").err
    for words in (["one"], ["two"], ["-c", "three"], ["four"]):
        assert run("ask", *words).status == 0

    assert [line for line in run("logs").out.splitlines() if line.startswith(">")] == ["> two", "> three", "> four"]
    assert [turn["message"] for turn in json.loads(run("logs", "-n", "2", "--json").out)] == ["three", "four"]
    assert run("logs", "-r").out == f"{json.loads(run('logs', '--json').out)[-1]['answer']}\n"
    id = json.loads(run("logs", "-n", "2", "--json").out)[0]["conversation"]
    assert [turn["message"] for turn in json.loads(run("logs", "--json", "--conversation", id[:8]).out)] == [
        "two",
        "three",
    ]


@pytest.mark.slow
def test_logs_search_prints_the_turns_with_the_words_however_far_back(run, kept):
    for words in (["my Pelican is Bob"], *[["-c", f"turn {n}"] for n in range(2, 7)], ["something else"]):
        assert run("ask", *words).status == 0

    def found(*words):
        return [turn["message"] for turn in json.loads(run("logs", "--json", "--search", *words).out)]

    assert found("BOB pelican") == ["my Pelican is Bob"]
    assert found("turn") == ["turn 4", "turn 5", "turn 6"]
    assert found("turn", "-n", "9") == [f"turn {n}" for n in range(2, 7)]
    assert found("pelican turn") == [], "not in one turn"
    assert run("conversations", "rename", json.loads(run("logs", "--json").out)[0]["conversation"], "birds").status == 0
    assert found("birds") == [], "of the title alone"
    assert "no turn is kept that contains these words" in run("logs", "--search", "birds").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "0"], "--limit is at least 1, not 0"),
        (["-n", "x"], "--limit: expected a whole number"),
        (["--conversation", "a", "--search", "b"], "use only one of them"),
        (["--conversation", "zzz"], "zzz"),
    ],
)
def test_what_logs_cannot_show_is_a_sentence(run, kept, words, said):
    ran = run("logs", *words)

    assert (ran.status in (1, 2), ran.out) == (True, "")
    assert said in ran.err


@pytest.fixture
def exported(run, kept, tmp_path):
    """The lines of an export of three conversations, one of which has an image."""

    async def fill():
        store = SqliteConversations(tmp_path / "kept.db")
        image = MediaPart(kind="image", mime_type="image/png", data=b"\x89PNG\r\n\x1a\n" + bytes(100))
        for id, media in (("a", ()), ("b", (image,)), ("c", ())):
            for number in (1, 2):
                message = UserMessage(content=f"question {number} of {id}", media=media)
                turn = ConversationTurn(id=f"{id}{number}", messages=(message,), at=f"2026-01-0{number}T00:00:00+00:00")
                await store.append(id, turn, tenant="default")
        await store.rename("b", "A title", tenant="default")
        await store.aclose()

    asyncio.run(fill())
    run("conversations", "export", "--all", "--json", "--output", str(tmp_path / "all.jsonl"))
    return tmp_path / "all.jsonl"


def everything(run, path):
    path.unlink(missing_ok=True)
    run("conversations", "export", "--all", "--json", "--output", str(path))
    return path.read_bytes()


def empty(tmp_path):
    for file in tmp_path.glob("kept.db*"):
        file.unlink()


def test_what_is_exported_and_imported_is_equal(run, exported, tmp_path):
    empty(tmp_path)

    result = run("conversations", "import", str(exported))

    assert result.status == 0, result.err
    assert everything(run, tmp_path / "again.jsonl") == exported.read_bytes()
    again = run("conversations", "import", "--json", str(exported))
    assert json.loads(again.out) == {"added": [], "present": ["a", "b", "c"], "different": []}


def test_an_import_overwrites_nothing_and_names_the_ids(run, exported, tmp_path):
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    changed = [{**line, "turns": line["turns"][:1] if line["id"] == "b" else line["turns"]} for line in lines]
    changed[0]["turns"][0]["messages"][0]["content"] = "changed"
    exported.write_text("".join(json.dumps(line) + "\n" for line in changed))
    before = everything(run, tmp_path / "before.jsonl")

    result = run("conversations", "import", "--json", str(exported))

    assert result.status == 1
    assert json.loads(result.out) == {"added": [], "present": ["a"], "different": ["b", "c"]}
    assert everything(run, tmp_path / "after.jsonl") == before


def test_an_import_that_was_stopped_is_completed(run, exported, tmp_path):
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    partial = tmp_path / "partial.jsonl"
    partial.write_text(
        "".join(json.dumps({**line, "turns": line["turns"][:1]}) + "\n" for line in lines if not line.get("media"))
    )
    (tmp_path / "all.jsonl.media").rename(tmp_path / "partial.jsonl.media")
    empty(tmp_path)
    assert run("conversations", "import", str(partial)).status == 0
    (tmp_path / "partial.jsonl.media").rename(tmp_path / "all.jsonl.media")

    assert run("conversations", "import", str(exported)).status == 0
    assert everything(run, tmp_path / "again.jsonl") == exported.read_bytes()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no conversation"),
        ("{", "all.jsonl:1: this is no exported conversation"),
        ("[]", "all.jsonl:1: this is no exported conversation"),
        ('{"id": "a", "title": "t"}', "'turns' is missing"),
        ('{"id": "a", "title": "t", "turns": []}', "it has no id, title or turns"),
        ('{"id": 1, "title": "t", "turns": [{}]}', "this is no exported conversation"),
        ("[" * 100_000, "this is no exported conversation"),
        ("\xff", "this is no exported conversation"),
    ],
)
def test_a_line_that_is_no_conversation_stops_an_import(run, exported, tmp_path, text, reason):
    exported.write_text(text, encoding="latin-1")
    before = everything(run, tmp_path / "before.jsonl")

    result = run("conversations", "import", str(exported))

    assert result.status == 2
    assert reason in result.err
    assert everything(run, tmp_path / "after.jsonl") == before


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_media_of_an_export_that_are_not_theirs_stop_an_import(run, exported, tmp_path, damage):
    (medium,) = (tmp_path / "all.jsonl.media").iterdir()
    medium.write_bytes(b"other") if damage == "changed" else medium.unlink()
    empty(tmp_path)

    result = run("conversations", "import", str(exported))

    assert (result.status, damage in result.err, listed(run)) == (2, True, [])


def test_an_id_twice_in_an_export_stops_an_import(run, exported, tmp_path):
    exported.write_text(exported.read_text() * 2)
    empty(tmp_path)

    result = run("conversations", "import", str(exported))

    assert (result.status, listed(run)) == (2, [])
    assert "is in line" in result.err
