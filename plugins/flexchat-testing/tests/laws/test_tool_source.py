"""The laws of a tool source hold for one that keeps them, and each fails for one that does not."""

import asyncio
import itertools
import json
from typing import ClassVar

import pytest
from flexchat.plugin import SourceServer, ToolSourceType
from flexchat_testing import ToolSourceConformance, sourced
from flexchat_testing.tool_sources import LISTED, ScriptedSource, ScriptedSourceSettings


@pytest.fixture(autouse=True)
def listed(tmp_path, request):
    """The file of the listed source."""
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "find", "description": "Find.", "effect": "read"}]))
    (tmp_path / "wrong.json").write_text('[{"nam": 1}]')
    TestListedSource.folder = tmp_path


class TestListedSource(ToolSourceConformance):
    """The kit's own."""

    source = LISTED
    settings: ClassVar = {"file": "tools.json"}
    wrong_settings = ({"file": "missing.json"}, {"file": "wrong.json"}, {"file": "."})
    plugin = "flexchat_testing.plugin"
    supports = frozenset({"refuses", "fingerprints"})


def broken(law, source=None, *, opens=None, **attributes):
    """Run one law on a source that is made for it."""

    async def open_it(settings, context):
        return source if source is not None else await opens(settings, context)

    record = ToolSourceType(name="x", config_class=ScriptedSourceSettings, open=open_it, summary="For a test.")
    kind = type("Broken", (ToolSourceConformance,), {"source": record, "supports": frozenset(), **attributes})
    made = kind.__new__(kind)
    getattr(made, law)()


def test_tools_that_cannot_be_used_are_found():
    for tools, told in (
        ([], "that has a tool"),
        (["find"], "not SourcedTools"),
        ([sourced("find"), sourced("find")], "one name"),
        ([sourced("no name")], "must be 1 to 128"),
        ([sourced("find", settings={"a": {1}})], "not JSON data"),
        ([sourced("find", parameters={"type": "object", "properties": 5})], "parameters"),
    ):
        with pytest.raises(AssertionError, match=told):
            broken("test_its_tools_can_be_used", ScriptedSource(tools))


def test_a_source_whose_tools_differ_each_time_is_found():
    class Counting(ScriptedSource):
        count = itertools.count()

        async def tools(self):
            return [sourced("find", f"Find {next(self.count)}.")]

    with pytest.raises(AssertionError, match="differ although nothing has changed"):
        broken("test_what_has_not_changed_is_the_same", Counting())


def test_a_source_that_changes_what_it_returned_is_found():
    class Shared(ScriptedSource):
        schema: ClassVar = {"type": "object", "properties": {}}

        async def tools(self):
            self.schema["properties"][f"p{len(self.schema['properties'])}"] = {}
            return [sourced("find", parameters=self.schema)]

    with pytest.raises(AssertionError, match="were changed"):
        broken("test_nothing_changes_what_was_returned", Shared())


def test_a_secret_that_leaves_is_found():
    async def opens(settings, context):
        return ScriptedSource([sourced("find", settings={"mock_response": settings.token})])

    with pytest.raises(AssertionError, match="a secret of its settings"):
        broken("test_no_secret_leaves_it", opens=opens)


def test_a_fingerprint_that_is_none_is_found():
    source = ScriptedSource([sourced("find")])
    source.fingerprint = None
    with pytest.raises(AssertionError, match="must be a text"):
        broken("test_its_fingerprint_is_a_text", source)


def test_a_state_that_is_none_and_a_restart_that_changes_tools_are_found():
    law = "test_what_runs_behind_it_can_be_restarted"
    source = ScriptedSource([sourced("find")])
    source.server_state = lambda tenant: "running"
    with pytest.raises(AssertionError, match="its state is 'running'"):
        broken(law, source)

    async def restart(tenant):
        source.tools_now = [sourced("find", "Found.")]

    source.server_state, source.restart = (lambda tenant: SourceServer(status="stopped")), restart
    with pytest.raises(AssertionError, match="a restart changes tools"):
        broken(law, source)


def test_errors_of_another_kind_are_found():
    source = ScriptedSource([sourced("find")])
    wrong = {"wrong_settings": ({"document": "x"},), "supports": frozenset({"refuses"})}
    with pytest.raises(AssertionError, match="must raise ToolSourceError, and returned"):
        broken("test_what_cannot_be_opened_is_told", source, **wrong)
    source.fault = KeyError("paths")
    with pytest.raises(AssertionError, match="KeyError, not ToolSourceError"):
        broken("test_what_cannot_be_opened_is_told", source, **wrong)


@pytest.mark.slow
def test_an_opening_that_ignores_its_end_is_found():
    async def opens(settings, context):
        for _ in range(20):
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        return ScriptedSource([sourced("find")])

    with pytest.raises(AssertionError, match="after it was cancelled"):
        broken("test_opening_can_be_cancelled", opens=opens, deadline_s=0.1)
