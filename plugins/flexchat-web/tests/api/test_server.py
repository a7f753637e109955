"""The server itself, and Markdown."""

import re
import time

import pytest
from flexchat_web.markdown import MAX_CHARACTERS, rendered
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples


async def test_the_page_learns_what_it_needs(told):
    """Services, whether there are tools and conversations, and whether the configuration may be changed."""
    found = (await (await told.client(edit=False)).get("/api/ui-config")).json()
    assert found["llms"] == [{"name": "robot", "provider": "told", "default_model": None}]
    assert (found["read_only"], found["keeps_conversations"], found["has_tools"]) == (True, True, True)
    assert (found["config"], found["config_problem"]) == ({"name": "demo", "format": None}, None)


async def test_markdown_becomes_html(told):
    """Text by text, tables included."""
    texts = ["**a**", "|x|y|\n|-|-|\n|1|2|", "~~b~~"]
    first, table, struck = (await (await told.client()).post("/api/markdown", json={"texts": texts})).json()["html"]
    assert first == "<p><strong>a</strong></p>\n"
    assert "<td>1</td>" in table
    assert "<s>b</s>" in struck


@pytest.mark.parametrize(
    "text",
    [
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](\tjavascript:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "![x](data:image/png;base64,AAAA)",
        "![x](https://example.com/tracker.png)",
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<javascript:alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        "[x](vbscript:x)",
        "[x](file:///etc/passwd)",
        "[x](//example.com)",
        "[x](/api/config)",
        'a `<b onmouseover="x">`',
        '```"onload=alert(1)\n<script>\n```',
    ],
)
def test_nothing_in_a_text_becomes_code_or_loads_anything(text):
    """No element but Markdown's own, no image, no address but the web's."""
    html = rendered(text)
    assert set(re.findall(r"<([a-z0-9]+)", html)) <= {"p", "a", "code", "pre"}
    assert all(address.startswith(("http", "mailto")) for address in re.findall(r'href="([^"]*)"', html))
    assert not re.search(r"<[^>]*\son\w+=", html)


def test_how_a_table_is_aligned_is_said_by_classes():
    """A style attribute would be blocked by the page's policy."""
    html = rendered("|l|c|r|n|\n|:-|:-:|-:|-|\n|1|2|3|4|")
    assert "style" not in html
    for cell, text in (("th", "lcrn"), ("td", "1234")):
        assert re.findall(rf"<{cell}([^>]*)>(.)", html) == [
            (' class="align-left"', text[0]),
            (' class="align-center"', text[1]),
            (' class="align-right"', text[2]),
            ("", text[3]),
        ]


def test_links_lead_out_of_the_page():
    """rel and target, also for links in pointed brackets."""
    for text in ("[x](https://a.example)", "<https://a.example>"):
        assert 'rel="noopener noreferrer" target="_blank"' in rendered(text)


def test_an_image_is_a_link_to_it():
    """It is not loaded, and not a stray exclamation mark; within a link it is its text."""
    to = '<a href="https://a.example/i.png" rel="noopener noreferrer" target="_blank">'
    assert to + "a &lt;cat&gt; (image)</a>" in rendered("![a <cat>](https://a.example/i.png)")
    assert to + "https://a.example/i.png (image)</a>" in rendered("![](https://a.example/i.png)")
    badge = rendered("[![ok](https://a.example/i.png)](https://b.example)")
    assert badge.count("<a ") == 1
    assert ">ok (image)</a>" in badge


@given(st.text(alphabet="[]()<>!*_`~|>#-+ \n\tab\\&;:/", max_size=300))
@settings(max_examples=examples(100), deadline=None)
def test_every_tag_is_one_of_markdowns(text):
    """Whatever signs meet."""
    known = set("p a em strong code pre s ul ol li blockquote hr br table thead tbody tr th td".split())  # noqa: SIM905
    known |= {f"h{level}" for level in range(1, 7)}
    assert set(re.findall(r"<([a-zA-Z0-9]+)", rendered(text))) <= known


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("piece", [">", "[", "*a_", "- ", "`", "![", "|", "<", "\\", "&#"])
def test_a_hostile_text_takes_no_longer_than_a_moment(piece):
    """Deep nesting and endless openings; a quadratic rule would take minutes (of the processor)."""
    started = time.thread_time()
    rendered(piece * (20_000 // len(piece)))
    assert time.thread_time() - started < 5


async def test_of_many_long_texts_those_beyond_a_limit_are_shown_as_they_are(told):
    """200 of them, each within the limit, would keep a processor busy for minutes."""
    long = "<b>" * (MAX_CHARACTERS // 6 + 1)
    answer = await (await told.client()).post("/api/markdown", json={"texts": ["*a*", long, long, "*b*"]})
    assert [html[:5] for html in answer.json()["html"]] == ["<p><e", "<p>&l", "<pre>", "<pre>"]
