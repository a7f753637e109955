"""Another configuration is put in force as a whole or not at all, and nobody notices who was there before."""

import asyncio
import gc
import logging
import threading

import pytest
from flexchat import ConfigError
from flexchat.config.reading import read_config
from flexchat_testing.scripted import ScriptedProvider
from flexchat_web.serving import Serving, Settings

pytestmark = pytest.mark.slow


def toml(answer):
    return (
        f'[llms.robot]\nprovider = "scripted"\nrepeat = true\nreplies = [{{ text = "{answer}" }}]\n'
        '[[responses]]\nllm = "robot"\nmodel = "r1"\n'
    )


@pytest.fixture
async def serving(config_file, plugins):
    serving = Serving(config_file, plugins, Settings())
    yield serving
    await serving.aclose()


async def answer_of(serving):
    async with serving.chat() as chat:
        return (await chat.respond("hi")).content


async def test_a_reload_puts_the_file_in_force(serving, config_file):
    assert await answer_of(serving) == "hello"
    before = serving.generation
    config_file.write_text(toml("new"))
    await serving.reload()
    assert await answer_of(serving) == "new"
    assert serving.generation == before + 1


@pytest.mark.parametrize("text", ["[llms", "", '[llms.a]\nprovider = "none"\n', "\xff"])
async def test_a_broken_file_never_interrupts(serving, config_file, text):
    """TC-71's neighbour, and the original's worst fault: a reload that failed left half of the providers."""
    config_file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError):
        await serving.reload()
    assert serving.config_problems
    assert await answer_of(serving) == "hello"
    config_file.write_text(toml("well again"))
    await serving.reload()
    assert serving.config_problems == ()
    assert await answer_of(serving) == "well again"


async def test_a_reload_stops_at_a_required_plugin_that_is_not_active(serving, config_file):
    """What served before goes on serving, with the plugins it had."""
    config_file.write_text(toml("new") + '[plugins]\nrequire = ["no-such-policy"]\n')

    with pytest.raises(ConfigError, match="no plugin is called 'no-such-policy'"):
        await serving.reload()

    assert await answer_of(serving) == "hello"


async def test_a_reload_blocks_what_the_file_blocks(serving, config_file):
    """The plugins were loaded when the server started."""
    config_file.write_text(toml("new") + '[plugins]\nblock = ["testing"]\n')

    with pytest.raises(ConfigError, match=r"plugin 'testing' blocked: by plugins\.block"):
        await serving.reload()

    assert await answer_of(serving) == "hello"


async def test_a_file_that_is_gone_never_interrupts(serving, config_file):
    config_file.unlink()
    with pytest.raises(ConfigError):
        await serving.reload()
    assert await answer_of(serving) == "hello"


async def test_turns_under_way_during_50_reloads_all_finish_on_the_configuration_they_began_with(
    serving, config_file, monkeypatch
):
    """No turn sees two configurations; what was replaced is closed once its last turn has ended, and not before."""
    go, closed = asyncio.Event(), []

    async def wait_and_say(self, messages, model, options):
        await go.wait()
        assert self not in closed, "closed under a turn"
        return await original(self, messages, model, options)

    async def aclose(self):
        closed.append(self)

    original = ScriptedProvider.generate_chat
    monkeypatch.setattr(ScriptedProvider, "generate_chat", wait_and_say)
    monkeypatch.setattr(ScriptedProvider, "aclose", aclose)
    turns = {}
    for number in range(50):
        config_file.write_text(toml(f"answer {number}"))
        await serving.reload()
        turns[f"answer {number}"] = [asyncio.create_task(answer_of(serving)) for _ in range(4)]
        await asyncio.sleep(0)
    assert len(closed) == 1, "the one there was before has no turns, each other has"
    go.set()
    for wanted, tasks in turns.items():
        assert await asyncio.gather(*tasks) == [wanted] * 4
    assert len(closed) == 50, "all but the one in force"


async def test_reloads_leak_nothing(serving):
    """Threads and chats: as many after 30 reloads as after one."""
    from flexchat import FlexChat

    await serving.reload()
    gc.collect()
    threads = threading.active_count()
    chats = sum(isinstance(each, FlexChat) for each in gc.get_objects())
    for _ in range(30):
        await serving.reload()
        await answer_of(serving)

    def is_collected():  # a thread that has just ended may still hold the last context
        gc.collect()
        return sum(isinstance(each, FlexChat) for each in gc.get_objects()) == chats

    await until(is_collected)
    assert threading.active_count() <= threads + 4, "the pool of to_thread grows to its limit and no further"


async def until(condition):
    for _ in range(3_000):  # a busy machine takes long
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


async def test_a_watched_file_is_reloaded_when_it_changes(new_app, config_file, monkeypatch, caplog):
    """flexchat serve --reload: the new one serves, a broken one is told in the log and does not."""
    monkeypatch.setattr("flexchat_web.serving.POLL_SECONDS", 0.01)
    serving = new_app().serving
    watching = asyncio.create_task(serving.watch())
    try:
        config_file.write_text(toml("watched"))
        await until(lambda: serving.generation == 2)
        assert await answer_of(serving) == "watched"
        with caplog.at_level(logging.WARNING, "flexchat_web.serving"):
            config_file.write_text("broken [")
            await until(lambda: serving.config_problems)
        assert "old one stays in use" in caplog.text
        assert await answer_of(serving) == "watched"
        config_file.unlink()
        await asyncio.sleep(0.05)
        config_file.write_text(toml("back"))
        await until(lambda: serving.generation == 3)
        assert await answer_of(serving) == "back"
        config_file.touch()
        await asyncio.sleep(0.05)
        assert serving.generation == 3, "the same text is no change"
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def test_included_files_and_prompts_are_watched_too(new_app, config_file, monkeypatch):
    """Also while one of them is broken."""
    monkeypatch.setattr("flexchat_web.serving.POLL_SECONDS", 0.01)
    more = config_file.parent / "more.json"
    more.write_text('{"limits": {"message_chars": 11}}')
    config_file.write_text('include = ["more.json"]\n' + toml("hello"))
    serving = new_app().serving
    watching = asyncio.create_task(serving.watch())

    async def limit():
        async with serving.chat() as chat:
            return chat.config.limits.message_chars

    try:
        assert await limit() == 11
        more.write_text('{"limits": ')
        await until(lambda: serving.config_problems)
        assert serving.config_problems[0].source.endswith("more.json")
        more.write_text('{"limits": {"message_chars": 22}}')
        await until(lambda: serving.generation == 2)
        assert await limit() == 22
    finally:
        watching.cancel()
        await asyncio.wait({watching})


def renamed_over(path, text):
    """Replace a file as editors do: another file gets its name."""
    new = path.with_name(f".{path.name}.swp")
    new.write_text(text)
    new.replace(path)


@pytest.mark.parametrize("name", ["flexchat.toml", "more.json", "prompt.md"])
async def test_each_file_may_be_changed_as_editors_do_broken_and_deleted(new_app, config_file, monkeypatch, name):
    """Whatever was wrong in between, the mended files serve."""
    monkeypatch.setattr("flexchat_web.serving.POLL_SECONDS", 0.01)
    texts = {
        "flexchat.toml": 'include = ["more.json"]\n' + toml("hello") + 'prompt_file = "prompt.md"\n',
        "more.json": '{"limits": {"message_chars": 11}}',
        "prompt.md": "Be kind.",
    }
    for each, text in texts.items():
        (config_file.parent / each).write_text(text)
    file = config_file.parent / name
    broken = {"flexchat.toml": "[", "more.json": "{", "prompt.md": "\udcff"}[name].encode("utf-8", "surrogateescape")
    serving = new_app().serving
    watching = asyncio.create_task(serving.watch())
    try:
        renamed_over(file, texts[name].replace("hello", "two").replace("11", "22").replace("kind", "brief"))
        await until(lambda: serving.generation == 2)
        async with serving.chat() as chat:
            found = (
                (await chat.respond("hi")).content,
                chat.config.limits.message_chars,
                chat.config.responses[0].prompt,
            )
        assert found != ("hello", 11, "Be kind.")
        file.write_bytes(broken)
        await until(lambda: serving.config_problems)
        assert serving.config_problems[0].line
        renamed_over(file, texts[name])
        await until(lambda: serving.generation == 3)
        file.unlink()
        if name != "flexchat.toml":  # while that one is gone, whoever saves it may just be at it
            await until(lambda: serving.config_problems)
            assert "there is no such file" in serving.config_problems[0].text
        else:
            await asyncio.sleep(0.05)
        renamed_over(file, texts[name].replace("hello", "three").replace("11", "33").replace("kind", "calm"))
        await until(lambda: serving.generation == 4)
        assert serving.config_problems == ()
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def test_a_watched_file_blocks_plugins_and_lets_them_back(new_app, client_of, config_file, monkeypatch):
    """What they offer goes with them: tools, tables of the schema, operations and pages."""
    monkeypatch.setattr("flexchat_web.serving.POLL_SECONDS", 0.01)
    app = new_app()
    serving = app.serving
    watching = asyncio.create_task(serving.watch())
    async with client_of(app) as api:

        async def offered():
            tools = [tool["name"] for tool in (await api.get("/api/tools/available")).json()["tools"]]
            schema = (await api.get("/api/config/schema")).json()
            paths = (await api.get("/openapi.json")).json()["paths"]
            pages = (await api.get("/static/plugins.js")).text
            runs = (await api.get("/api/validation/runs")).status_code
            return (
                "calculator" in tools,
                "validation" in schema["properties"],
                "/api/validation/runs" in paths,
                "validation" in pages,
                runs != 404,
            )

        try:
            assert await offered() == (True,) * 5
            config_file.write_text('plugins.block = ["validation", "builtin"]\n' + toml("hello"))
            await until(lambda: serving.generation == 2)
            assert await offered() == (False,) * 5
            assert await answer_of(serving) == "hello"
            config_file.write_text(toml("hello"))
            await until(lambda: serving.generation == 3)
            assert await offered() == (True,) * 5
        finally:
            watching.cancel()
            await asyncio.wait({watching})


async def test_a_file_that_was_changed_since_it_was_read_is_reloaded(config_file, plugins, monkeypatch):
    """flexchat serve reads it before the server is there, and hands on what it has read."""
    monkeypatch.setattr("flexchat_web.serving.POLL_SECONDS", 0.01)
    read = read_config(config_file)
    config_file.write_text(toml("changed"))
    serving = Serving(read, plugins, Settings())
    assert await answer_of(serving) == "hello"
    watching = asyncio.create_task(serving.watch())
    try:
        await until(lambda: serving.generation == 2)
        assert await answer_of(serving) == "changed"
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        await serving.aclose()


async def test_a_plugin_that_breaks_on_a_changed_file_does_not_end_the_watch(new_app, config_file, monkeypatch, caplog):
    """The next change is read again."""
    monkeypatch.setattr("flexchat_web.serving.POLL_SECONDS", 0.01)
    serving = new_app().serving
    read = serving._read
    monkeypatch.setattr(serving, "_read", lambda _: 1 / 0)
    watching = asyncio.create_task(serving.watch())
    try:
        config_file.write_text(toml("one"))
        await until(lambda: "ZeroDivisionError" in caplog.text)
        monkeypatch.setattr(serving, "_read", read)
        config_file.write_text(toml("two"))
        await until(lambda: serving.generation == 2)
        assert caplog.text.count("ZeroDivisionError") == 1
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def test_what_requests_share_is_made_once_and_closed_at_the_end(config_file, plugins):
    class Kept:
        closed = False

        def __init__(self, serving):
            self.serving = serving

        async def aclose(self):
            self.closed = True

    serving = Serving(config_file, plugins, Settings())
    kept = serving.shared(Kept)
    assert serving.shared(Kept) is kept
    assert kept.serving is serving
    await serving.aclose()
    assert kept.closed
