"""What other plugins add to the HTTP API passes what ours passes; the examples run as they are copied."""

import inspect
import re
import textwrap
import types

import attrs
import pytest
from flexchat.assembly import installed_plugins
from flexchat.plugin import hookimpl
from flexchat_web import create_app, extensions, hookspecs
from flexchat_web.page_files import STATIC
from flexchat_web.serving import Settings

CONFIG = {
    "llms": {"robot": {"provider": "scripted", "replies": [{"text": "hi"}]}},
    "responses": [{"llm": "robot", "model": "r1"}],
}
HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("flexchat_web_")}


def example(name):
    module = types.ModuleType("acme")
    vars(module)["hookimpl"] = hookimpl
    exec(textwrap.dedent(inspect.getdoc(HOOKS[name]).split("Example:")[1]), vars(module))
    return module


@pytest.fixture
def with_plugin(client_of):
    """A client of an app with one more plugin."""

    def make(plugin, **settings):
        host = installed_plugins()
        assert host.register(plugin, "acme").status == "active"
        return client_of(create_app(CONFIG, plugins=host, settings=Settings(**settings)))

    return make


async def test_an_operation_of_a_plugin_passes_the_guard_and_stands_in_the_document(with_plugin):
    client = with_plugin(example("flexchat_web_operations"), tokens={"s3cret-token": "red"})
    headers = {"authorization": "Bearer s3cret-token"}

    assert (await client.get("/api/acme/dice")).status_code == 401
    assert (await client.get("/api/acme/dice", headers=headers)).json() == {"rules": 1, "tenant": "red"}
    assert (await client.get("/api/acme/dice?x=1", headers=headers)).status_code == 400
    document = (await client.get("/openapi.json", headers=headers)).json()
    assert document["paths"]["/api/acme/dice"]["get"]["operationId"] == "acme_dice"


async def test_a_fact_of_a_plugin_stands_at_each_model_and_in_the_document(with_plugin):
    client = with_plugin(example("flexchat_web_model_facts"))

    models = (await client.get("/api/models/list")).json()["models"]

    assert [model["price"] for model in models] == [{"usd": 0.0}] * len(models)
    document = (await client.get("/openapi.json")).json()
    answer = document["paths"]["/api/models/list"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert {"price", "validation"} <= {*answer["properties"]["models"]["items"]["properties"]}


async def test_a_model_that_only_a_fact_names_joins_the_list(with_plugin):
    class Names:
        @hookimpl(optionalhook=True)
        def flexchat_web_model_facts(self, web):
            async def told(call, chat, ids):
                return dict.fromkeys(ids, True)

            yield web.ModelFact(name="acme", schema={"type": "boolean"}, values=told, models=lambda chat: ["robot/r2"])

    client = with_plugin(Names())

    assert "robot/r2" in [model["id"] for model in (await client.get("/api/models/list")).json()["models"]]
    assert "robot/r2" in [model["id"] for model in (await client.get("/v1/models")).json()["data"]]


async def test_what_a_plugins_operation_raises_is_a_problem(with_plugin):
    """An ApiError as it says; an error of FlexChat as ours; what is anything else with an incident number."""

    class Raises:
        @hookimpl(optionalhook=True)
        def flexchat_web_operations(self, web):
            async def gone(call):
                raise web.ApiError(410, "it is gone", kind="gone")

            async def broken(call):
                raise KeyError("no")

            one = web.Operation(
                method="GET", path="/api/a", name="a", summary="A.", tag="server", handle=gone, answers={200: None}
            )
            return [one, attrs.evolve(one, path="/api/b", name="b", handle=broken)]

    client = with_plugin(Raises())

    assert (await client.get("/api/a")).json()["type"] == "urn:flexchat:problem:gone"
    assert (await client.get("/api/b")).status_code == 500


async def test_without_validation_the_server_serves_and_lists_models(client_of):
    """Its table is a note; its operations are not there."""
    host = installed_plugins({"validation": "a test"})
    client = client_of(create_app({**CONFIG, "validation": {"runs": 2}}, plugins=host))

    assert (await client.get("/api/validation/matrix")).status_code == 404
    models = (await client.get("/api/models/list")).json()["models"]
    assert models
    assert not any("validation" in model for model in models)


async def test_a_page_of_a_plugin_is_told_to_the_browser_and_its_files_are_served(with_plugin, tmp_path):
    """Nothing else of its folder's neighbourhood is."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "dice.js").write_text("export const title = 'Dice';")
    (tmp_path / "secret.js").write_text("no")

    class Pages:
        @hookimpl(optionalhook=True)
        def flexchat_web_pages(self, web):
            yield web.Page(name="dice", label="Dice", folder=folder, script="dice.js", after="chat")

    client = with_plugin(Pages())

    told = await client.get("/static/plugins.js")
    assert told.headers["content-type"].startswith("text/javascript")
    assert '"script": "plugins/dice/dice.js"' in told.text
    assert (await client.get("/static/plugins/dice/dice.js")).text == "export const title = 'Dice';"
    for path in ("dice/../secret.js", "dice/..%2fsecret.js", "dice/", "dice", "none/dice.js", ""):
        assert (await client.get(f"/static/plugins/{path}")).status_code in (400, 404), path


async def test_what_cannot_be_offered_is_left_out_and_told(with_plugin, tmp_path, caplog):
    """A plugin's mistake stops no server: the log names the plugin, and what is right is there."""
    (tmp_path / "dice.js").write_text("export const title = 'Dice';")

    class Wrong:
        @hookimpl(optionalhook=True)
        def flexchat_web_pages(self, web):
            files = {"folder": tmp_path, "script": "dice.js"}
            page = web.Page(name="dice", label="Dice", icon="list", count="/api/dice", **files)
            yield from ({"name": "x"}, page, page, attrs.evolve(page, name="chat"))
            yield attrs.evolve(page, name="gone", script="gone.js")

        @hookimpl(optionalhook=True)
        def flexchat_web_operations(self, web):
            async def answer(call):
                return web.Json({})

            one = web.Operation(
                method="GET", path="/api/a", name="a", summary="A.", tag="server", handle=answer, answers={200: {}}
            )
            return [one, one, attrs.evolve(one, path="/api/config", name="b")]

        @hookimpl(optionalhook=True)
        def flexchat_web_model_facts(self, web):
            raise KeyError("no")

    client = with_plugin(Wrong())

    assert (await client.get("/api/a")).json() == {}
    pages = (await client.get("/static/plugins.js")).text
    assert pages.count('"dice"') == 1
    assert '"icon": "list"' in pages
    assert '"count": "api/dice"' in pages
    assert '"chat"' not in pages.replace('"after": "chat"', "")
    told = caplog.text
    for reason in (
        "it takes web.Page, not dict",
        "the page 'dice' is a page of acme",
        "the page 'chat' is FlexChat's own",
        "the page 'gone' has no ",
        "GET /api/a is an operation of acme",
        "GET /api/config is FlexChat's own",
        "flexchat_web_model_facts failed",
    ):
        assert reason in told, reason


def test_our_pages_are_those_of_the_browser():
    script = (STATIC / "js" / "main.js").read_text()
    assert tuple(re.findall(r'^  \["([a-z]+)", "', script, re.M)) == extensions.PAGES


def test_the_example_of_a_page_is_one():
    import flexchat_web.plugin_api as web

    (page,) = example("flexchat_web_pages").flexchat_web_pages(web)
    assert page.to_dict()["script"] == "plugins/acme_dice/dice.js"
    with pytest.raises(ValueError, match="name"):
        attrs.evolve(page, name="../x")
