"""HTML files."""

import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping


def read(path, **mapping):
    return list(kind_of(path).read(path, FieldMapping(**mapping)))


@pytest.fixture
def write(tmp_path):
    def call(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return call


def outline(pieces):
    return [(piece.headings, piece.text) for piece in pieces]


def test_html_is_read_without_scripts_styles_and_navigation(write):
    """Headings, blocks, lists, tables and code are kept; a page's title stands above them."""
    path = write(
        "a.html",
        "<html><head><title>Site</title><style>p{}</style></head><body><nav>Menu</nav><script>x()</script>"
        "<h1>Guide</h1><p>Some <b>bold</b>\n text.</p><ul><li>one</li><li><p>two</p></li></ul>"
        "<h2>Table</h2><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
        "<pre><code>x = 1\n  y = 2</code></pre></body></html>",
    )
    assert outline(read(path)) == [
        (("Site", "Guide"), "Some bold text.\n\n- one\n- two"),
        (("Site", "Guide", "Table"), "a | b\n1 | 2\n\n```\nx = 1\n  y = 2\n```"),
    ]


def test_html_says_its_encoding(write):
    """A page that is no UTF-8 is read as its meta element says."""
    page = '<meta charset="iso-8859-1"><p>Größe</p>'.encode("iso-8859-1")
    assert read(write("a.htm", page))[0].text == "Größe"
