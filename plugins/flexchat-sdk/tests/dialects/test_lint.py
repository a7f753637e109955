"""What is said of tools before a service sees them."""

import time

import pytest
from flexchat.domain import Implementation, ToolDefinition
from flexchat_sdk import SchemaDialect
from flexchat_sdk.dialects.lint import lint_tools, portable_definition

KIND = SchemaDialect(name="kind")
PICKY = SchemaDialect(
    name="picky",
    keywords={"pattern": "refuse", "minLength": "note", "title": "drop"},
    max_description=20,
    max_tools=2,
)
BOTH = {"kind": KIND, "picky": PICKY}


def tool(name="t", form=None, description="Does it."):
    return ToolDefinition(
        name=name,
        description=description,
        parameters={"type": "object", "properties": {"p": form or {"type": "string"}}},
        implementation=Implementation(type="mock"),
    )


def found(form, dialect="picky"):
    return next(f for f in lint_tools([tool(form=form)], BOTH) if f.dialect == dialect)


def test_each_tool_is_judged_for_each_dialect_in_order():
    """Tool by tool, in the order of the dialects."""
    findings = lint_tools([tool("a"), tool("b")], BOTH)

    assert [(f.tool, f.dialect, f.outcome) for f in findings] == [
        ("a", "kind", "accepted"),
        ("a", "picky", "accepted"),
        ("b", "kind", "accepted"),
        ("b", "picky", "accepted"),
    ]


@pytest.mark.parametrize(
    ("form", "outcome", "sentence"),
    [
        ({"type": "string"}, "accepted", None),
        ({"type": "string", "title": "T"}, "rewritten", None),
        (
            {"type": "string", "minLength": 1},
            "rewritten",
            "tool 't' is changed for picky: at /properties/p: "
            "the service does not accept minLength: it is mentioned in the description",
        ),
        (
            {"type": "string", "pattern": "x", "minLength": 1},
            "refused",
            "tool 't' cannot be sent to picky: at /properties/p: "
            "the service does not accept pattern; remove it, and put it into the description",
        ),
    ],
)
def test_a_finding_has_an_outcome_and_a_sentence_where_something_is_lost(form, outcome, sentence):
    """A refusal speaks of its errors alone; what is rewritten without loss needs no sentence."""
    finding = found(form)

    assert (finding.outcome, finding.sentence) == (outcome, sentence)
    assert found(form, "kind").outcome == "accepted"


def test_a_sentence_names_three_things_at_most():
    """Equal messages count once; the command that shows all is named."""
    dialect = SchemaDialect(name="d", keywords=dict.fromkeys(("pattern", "minLength", "maxLength", "const"), "note"))
    form = {"type": "string", "pattern": "x", "minLength": 1, "maxLength": 3, "const": "x"}

    [finding] = lint_tools([tool(form={"type": "object", "properties": {"a": form, "b": form}})], {"d": dialect})

    assert finding.sentence.count("the service does not accept") == 3
    assert finding.sentence.endswith("(and 1 more: flexchat tools lint)")


def test_a_name_that_is_sent_as_another_is_told():
    """weather.get is sent as weather_get: no loss, since calls come back under the true name."""
    [finding] = lint_tools([tool("weather.get")], {"kind": KIND})

    assert finding.outcome == "rewritten"
    assert [(n.severity, n.keyword) for n in finding.notes] == [("info", "name")]
    assert "weather_get" in finding.notes[0].message


def test_a_description_that_is_too_long_is_a_warning():
    """With both lengths; only where the dialect has a limit."""
    findings = lint_tools([tool(description="x" * 21)], BOTH)

    assert [bool(f.sentence) for f in findings] == [False, True]
    assert "21 characters, the service accepts 20" in findings[1].sentence


def test_too_many_tools_are_a_finding_of_their_own():
    """Not of a tool: rules may allow fewer."""
    findings = lint_tools([tool("a"), tool("b"), tool("c")], BOTH)

    [about_all] = [f for f in findings if not f.tool]
    assert about_all.dialect == "picky"
    assert about_all.sentence == ("the tools for picky: there are 3, a request accepts 2; let each rule allow fewer")


def test_a_portable_definition_checks_calls_as_strictly_as_before():
    """Spelling changes, constraints stay; what cannot be said without loss is left as it is."""
    form = {"title": "P", "allOf": [{"type": "integer"}, {"minimum": 1, "maximum": 5}]}
    better, notes = portable_definition(tool(form=form))
    exclusive = tool(form={"oneOf": [{"type": "integer"}, {"minimum": 1}]})
    conflict = tool(form={"allOf": [{"type": "string"}, {"type": "integer"}]})

    assert better.parameters["properties"]["p"] == {"type": "integer", "minimum": 1, "maximum": 5}
    assert notes
    assert portable_definition(exclusive) == (exclusive, ())
    assert portable_definition(conflict) == (conflict, ())


@pytest.mark.timed
def test_linting_is_quick_enough_for_every_start():
    """100 ordinary tools in five dialects: about 20 ms; the bound is for a busy machine."""
    properties = {
        "city": {"type": "string", "description": "Where"},
        "days": {"type": "integer", "minimum": 1, "maximum": 10, "description": "How many"},
        "unit": {"type": "string", "enum": ["c", "f"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    tools = [tool(f"t{n}", {"type": "object", "properties": properties}) for n in range(100)]
    started = time.thread_time()
    findings = lint_tools(tools, {f"d{n}": SchemaDialect(name=f"d{n}", keywords=PICKY.keywords) for n in range(5)})

    assert time.thread_time() - started < 0.5
    assert len(findings) == 500
