"""Roles: what is listed is what runs, at every entrance, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from flexchat import ConfigError, FlexChat, NotPermittedError, Principal, Reply, ToolContext, tool
from flexchat.host import current_principal
from flexchat_policy.roles import Role, refusal
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

ROLES = {
    "support": {"tools": ["get_*"], "rules": ["desk"]},
    "finance": {"tools": ["pay", "get_balance"], "permissions": ["approve"]},
    "admin": {"tools": ["*"], "permissions": ["approve", "edit"]},
}
NAMES = ("get_balance", "get_order", "pay", "call_pay")
GRANTED = {
    None: set(),
    ("nobody",): set(),
    ("support",): {"get_balance", "get_order"},
    ("finance",): {"pay", "get_balance"},
    ("support", "finance"): {"get_balance", "get_order", "pay"},
    ("admin",): set(NAMES),
}


def principal_with(roles):
    return None if roles is None else Principal("ann", roles)


class Shop:
    """Tools, with what has run."""

    def __init__(self):
        self.ran = []

        @tool(effect="read")
        def get_balance() -> str:
            """Get the balance."""
            self.ran.append("get_balance")
            return "12"

        @tool(effect="read")
        def get_order() -> str:
            """Get an order."""
            self.ran.append("get_order")
            return "none"

        @tool
        def pay() -> str:
            """Pay."""
            self.ran.append("pay")
            return "paid"

        @tool(effect="read")
        async def call_pay(context: ToolContext) -> str:
            """Call another tool."""
            self.ran.append("call_pay")
            result = await context.call_tool("pay", {})
            return str(result.error)

        self.tools = [get_balance, get_order, pay, call_pay]

    def chat(self, model=None, *, roles=ROLES, path=None, **config):
        data = {
            "llms": {"s": {"provider": "scripted"}},
            "responses": [{"llm": "s", "model": "m", "name": "desk", "tools": {}}],
            "roles": roles,
            **config,
        }
        chat = FlexChat.from_config(data, providers={"s": model or ScriptedProvider([])}, tools=self.tools)
        if path is not None:
            chat.keep_in(SqliteConversations(path))
        return chat


@pytest.fixture
def shop():
    return Shop()


def offered(model):
    return {entry["function"]["name"] for entry in model.requests[0].options.tools or ()}


async def in_turn(shop, name, principal, path):
    async with shop.chat(ScriptedProvider([calls((name, {})), says("Done")])) as chat:
        turn = await chat.respond("Go", principal=principal)
    return turn.tool_calls[0].result


async def direct(shop, name, principal, path):
    async with shop.chat() as chat:
        return await chat.call_tool(name, {}, principal=principal)


async def ambient(shop, name, principal, path):
    async with shop.chat() as chat:
        current_principal.set(principal)
        return await chat.call_tool(name, {})


async def by_worker(shop, name, principal, path):
    async with shop.chat(ScriptedProvider([calls((name, {})), says("Done")]), path=path) as chat:
        await chat.submit("Go", conversation="c", principal=principal)
        current_principal.set(Principal("worker", ["admin"]))
        (handle,) = await chat.resume_interrupted()
        return (await handle.result()).tool_calls[0].result


async def by_requested_call(shop, name, principal, path):
    from flexchat import ChatRequest, RequestedCall

    async with shop.chat(path=path) as chat:
        request = ChatRequest(user_message="go", call=RequestedCall(name=name, arguments={}), conversation="c")
        turn = await chat.respond(request, principal=principal)
    return turn.tool_calls[0].result


ENTRANCES = [in_turn, direct, ambient, by_worker, by_requested_call]


@pytest.mark.parametrize("roles", GRANTED, ids=str)
@pytest.mark.parametrize("enter", ENTRANCES, ids=lambda f: f.__name__)
async def test_what_is_listed_is_what_runs(shop, enter, roles, tmp_path):
    """At every entrance of a program: a listing of the tools, and a call of each."""
    principal = principal_with(roles)

    for name in NAMES:
        shop.ran.clear()
        token = current_principal.set(None)
        is_rule_open = roles is not None and any(role in ROLES for role in roles)
        try:
            result = await enter(shop, name, principal, tmp_path / f"{name}.db")
        except NotPermittedError:
            assert not is_rule_open
            result = None
        finally:
            current_principal.reset(token)
        if name in GRANTED[roles]:
            assert name in shop.ran
            assert result.success
        else:
            assert shop.ran == []
            assert result is None or result.error.startswith("Not permitted: ")
    current_principal.set(principal)
    try:
        async with shop.chat() as chat:
            assert {each.name for each in chat.tools.get_registry().list()} == GRANTED[roles]
            assert {*chat.tools.offered_to(chat.config.responses[0])} == GRANTED[roles]
    finally:
        current_principal.set(None)


@pytest.mark.parametrize("roles", [roles for roles in GRANTED if GRANTED[roles]], ids=str)
async def test_a_model_is_offered_what_its_principal_may_use(shop, roles):
    """And nothing else, also in a preview and an explanation."""
    model = ScriptedProvider([says("Done")])

    async with shop.chat(model) as chat:
        principal = principal_with(roles)
        await chat.respond("Go", principal=principal)
        preview = await chat.preview("Go", principal=principal)
        explanation = await chat.explain("Go", principal=principal)

    assert offered(model) == GRANTED[roles]
    assert {entry["function"]["name"] for entry in preview.options.tools} == GRANTED[roles]
    assert {*explanation.tools} == GRANTED[roles]


async def test_an_inner_call_has_the_principal_of_the_outer(shop):
    """A tool that is permitted does not open another one."""
    roles = {"clerk": {"tools": ["call_pay"]}}
    async with shop.chat(roles=roles) as chat:
        result = await chat.call_tool("call_pay", {}, principal=Principal("ann", "clerk"))

    assert shop.ran == ["call_pay"]
    assert "Not permitted" in result.result


async def test_the_model_reads_why_and_the_record_has_it(shop):
    """A refusal has a name and a reason; it depends on no argument."""
    model = ScriptedProvider([calls(("pay", {"no": "such"})), says("Done")])

    async with shop.chat(model) as chat:
        turn = await chat.respond("Go", principal=Principal("ann", "support"))

    (record,) = turn.tool_calls
    assert record.result.error == "Not permitted: ann has 'support', which does not grant the tool 'pay'"
    assert record.facts["refused"]["why"] in record.result.error
    assert "Not permitted" in model.requests[1].messages[-1].content


async def test_an_unknown_tool_lists_only_what_is_permitted(shop):
    """The hint of another error must not be a listing."""
    async with shop.chat() as chat:
        result = await chat.call_tool("get_ordr", {}, principal=Principal("ann", "support"))

    assert "pay" not in result.hint
    assert "get_order" in result.hint


async def test_a_rule_that_no_role_grants_does_not_answer(shop):
    """The next one that fits does, or none."""
    rules = [{"llm": "s", "model": "m", "name": name} for name in ("vip", "desk")]
    model = ScriptedProvider([says("Hi")], repeat=True)

    async with shop.chat(model, responses=rules) as chat:
        turns = [await chat.respond("Hi", principal=Principal("ann", role)) for role in ("support", "admin")]
        with pytest.raises(NotPermittedError, match="no identity was established"):
            await chat.respond("Hi")

    assert [turn.rule_name for turn in turns] == ["desk", "vip"]
    assert len(model.requests) == 2


@pytest.mark.parametrize(("role", "approves"), [("support", False), ("finance", True)])
async def test_only_who_may_approve_approves(shop, role, approves):
    """The reply of a person without the permission is none."""
    roles = {**ROLES, "support": {"tools": ["*"]}}
    async with shop.chat(ScriptedProvider([calls(("pay", {})), says("Done")]), roles=roles) as chat:
        await chat.respond(
            "Go", principal=Principal("ann", role), approve=True, on_question=lambda _: Reply(action="accept")
        )

    assert shop.ran == (["pay"] if approves else [])


async def test_a_question_is_answered_by_who_may(shop, tmp_path):
    """In another process, too, and it stays open for them."""
    roles = {**ROLES, "support": {"tools": ["*"]}}
    config = {"roles": roles, "questions": {"expires": "1h"}}
    model = ScriptedProvider([calls(("pay", {})), says("Done")])
    async with shop.chat(model, path=tmp_path / "c.db", **config) as chat:
        turn = await chat.respond("Go", principal=Principal("ann", "support"), conversation="c", approve=True)
        with pytest.raises(NotPermittedError):
            await chat.answer(turn.pending[0].id, Reply(action="accept"))
        current_principal.set(Principal("bob", "finance"))
        handle = await chat.answer(turn.pending[0].id, Reply(action="accept"))
        assert handle is not None
        done = await handle.result()

    assert done.principal == Principal("ann", "support")
    assert shop.ran == ["pay"]


def test_a_resumed_turn_of_a_role_that_is_gone_runs_nothing(shop, tmp_path):
    """The roles of now decide, not those of then."""

    async def run():
        model = ScriptedProvider([calls(("pay", {})), says("Done")])
        async with shop.chat(model, path=tmp_path / "c.db") as chat:
            await chat.submit("Go", conversation="c", principal=Principal("ann", "finance"))
        less = {"finance": {"tools": ["get_balance"]}}
        async with shop.chat(model, path=tmp_path / "c.db", roles=less) as chat:
            (handle,) = await chat.resume_interrupted()
            return await handle.result()

    turn = asyncio.run(run())

    assert shop.ran == []
    assert turn.tool_calls[0].result.error.startswith("Not permitted: ")


def test_all_problems_are_reported_at_once(shop):
    """With their places and the nearest names."""
    roles = {
        "b": {"tools": []},
        "c": {"tools": ["*"], "rules": ["dsk"], "permissions": ["aprove"]},
        "d": {"toolz": ["*"]},
    }
    with pytest.raises(ConfigError) as raised:
        shop.chat(roles={name: roles[name] for name in "bc"} | {"d": roles["d"]})
    text = str(raised.value)
    assert "unknown key 'toolz' (did you mean 'tools'?)" in text
    assert "aprove" in text
    with pytest.raises(ConfigError) as raised:
        shop.chat(roles={"b": roles["b"], "c": {"tools": ["*"], "rules": ["dsk"]}})
    text = str(raised.value)
    assert "roles.b: grants no tools" in text
    assert "no rule is called 'dsk' (did you mean 'desk'?)" in text
    notes = [str(note) for note in shop.chat(roles={"a": {"tools": ["get_ordr", "x*"]}}).notes]
    assert any("no tool is called 'get_ordr' (did you mean 'get_order'?)" in note for note in notes)
    assert any("'x*' grants no tool" in note for note in notes)


@pytest.mark.parametrize("table", ["rolls", "role", "Roles"])
def test_a_misspelt_table_is_an_error(table):
    """Nothing starts without what it forbids."""
    config = {"llms": {"s": {"provider": "scripted"}}, "responses": [{"llm": "s"}], table: ROLES}

    with pytest.raises(ConfigError, match="roles"):
        FlexChat.from_config(config, providers={"s": ScriptedProvider([])})


def test_without_its_package_a_config_with_roles_does_not_start():
    """Blocked, broken or not installed: the table is not ignored."""
    config = {"llms": {"s": {"provider": "scripted"}}, "responses": [{"llm": "s"}], "roles": ROLES}

    with pytest.raises(ConfigError, match="this table is not read"):
        FlexChat.from_config({**config, "plugins": {"block": ["access"]}}, providers={"s": ScriptedProvider([])})


def test_no_role_grants_by_accident():
    """Patterns are exact: case and the whole name count."""
    roles = {"a": Role(tools=("get_*",), rules=("desk",))}
    shop = Shop()
    order = next(each.definition for each in shop.tools if each.definition.name == "get_order")
    ann = Principal("ann", "a")

    assert refusal(roles, ann, order) is None
    assert refusal(roles, Principal("ann", "A"), order) is not None
    assert refusal(roles, ann, "approve") is not None
    assert refusal({"a": Role(tools=("GET_*", "et_order", "get_orde"))}, ann, order) is not None


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a=b", "a\nb", "a\x1b[31m", "a\u202eb", "a\u00a0b"])
def test_a_role_that_no_token_can_name_is_an_error(shop, name):
    """Control characters never reach a log or a model by way of its name."""
    with pytest.raises(ConfigError, match="the name of a role is printable") as raised:
        shop.chat(roles={name: {"tools": ["*"]}})

    assert name in ("", "a b", "a,b", "a=b") or name not in str(raised.value)


@pytest.mark.parametrize("other", ["\u0430dmin", "Admin", "admin ", "adm\u0131n", "\uff41dmin"])
def test_a_name_that_only_looks_like_a_role_grants_nothing(shop, other):
    """Homographs, other cases and widths are other names."""
    order = next(each.definition for each in shop.tools if each.definition.name == "get_order")
    roles = {"admin": Role(tools=("*",))}

    assert refusal(roles, Principal("ann", [other]), order) is not None
    assert refusal({"a": Role(tools=("get_\u043erder",))}, Principal("ann", "a"), order) is not None


def test_the_name_of_a_principal_is_shown_without_control_characters(shop):
    """It may come from elsewhere."""
    why = refusal({}, Principal("ann\n\x1b[31mroot"), "edit")

    assert why.isprintable()


@pytest.mark.parametrize("roles", [{"tools": ["*"]}, {"support": ["*"]}, {"support": {"tools": "*"}}, ["support"], "x"])
def test_roles_of_another_form_are_an_error(shop, roles):
    """A name that was forgotten, a text for a list: nothing starts."""
    with pytest.raises(ConfigError, match="roles"):
        shop.chat(roles=roles)
