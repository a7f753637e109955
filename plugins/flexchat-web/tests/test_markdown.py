"""Markdown's price: in proportion to the text, and known before it is rendered."""

import pytest
from flexchat_web.markdown import MAX_PRICE, QUICK, all_rendered, price, rendered

HOSTILE = {
    "images": lambda n: "![" * n,
    "whole images": lambda n: "![a](https://a.example) " * (n // 8),
    "links": lambda n: "[a](" * n,
    "nested links": lambda n: "[" * n + "](x)" * (n // 4),
    "short rows": lambda n: "|a" * 20 + "\n" + "|-" * 20 + "\n" + "|\n" * (n // 20),
    "wide rows": lambda n: "|a" * n + "\n" + "|-" * n + "\n" + "|b" * n,
    "ticks": lambda n: "`a" * n,
    "growing ticks": lambda n: "".join("`" * (i % 300) + " " for i in range(n // 150)),
    "html": lambda n: "<a " * n,
    "emphasis": lambda n: "*a_b**c__" * (n // 4),
    "references": lambda n: "".join(f"[{i}]: /x\n" for i in range(n // 8)),
    "quotes": lambda n: "> " * 30 + "a\n" * (n // 4),
    "lists": lambda n: "- a\n" * (n // 4),
    "lines": lambda n: "a\n" * (n // 2),
    "backslashes": lambda n: "\\" * n,
    "entities": lambda n: "&amp" * n,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_rendering_takes_time_in_proportion_to_the_text(kind, cpu_growth):
    """Four times the text takes about four times as long, whatever signs it is made of."""
    assert cpu_growth(lambda n: rendered(HOSTILE[kind](n)), 400, 1_600) < 9


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_text_costs_no_more_than_its_price(kind, cpu_growth):
    """Whatever is rendered in the event loop takes a moment only."""
    dear = HOSTILE[kind](2_000)
    cheap = HOSTILE["images"](QUICK // 2)
    units = price(dear) / price(cheap)

    assert cpu_growth(lambda n: rendered(dear if n else cheap), 0, 1) < 3 * units


def test_an_empty_cell_has_its_price():
    """A table of a hundred columns is filled up with cells that no character stands for."""
    table = "|a" * 100 + "\n" + "|-" * 100 + "\n" + "|\n" * 500

    assert price(table) > 50_000
    assert price("|a" * 1_000 + "\n" * 1_000) < 100_000


def test_what_is_too_dear_is_shown_as_it_is():
    """Beyond the limit of a request, text by text; a usual answer is within what is rendered at once."""
    dear = "|\n" * 30_000

    found = all_rendered(["*a*", dear, dear, "*b*"])

    assert price(dear) > MAX_PRICE
    assert [html[:5] for html in found] == ["<p><e", "<pre>", "<pre>", "<pre>"]
    assert price("A usual answer, with a **word** or two.\n\n" * 25) < QUICK
