"""Markdown."""

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


def test_markdown_has_the_path_of_its_headings(write):
    """ATX and setext headings; a heading without text is not lost, one with headings below it is only their path."""
    path = write(
        "a.md",
        "Before.\n\n# Guide\n\nIntro.\n\n## Install #\n\n### Linux\n\nRun `pip`.\n\n## [Use](x.md) {#use}\nGo.\n\n"
        "Other\n=====\nMore.\n\n## Bare\n",
    )
    assert outline(read(path)) == [
        ((), "Before."),
        (("Guide",), "Intro."),
        (("Guide", "Install", "Linux"), "Run `pip`."),
        (("Guide", "Use"), "Go."),
        (("Other",), "More."),
        (("Other", "Bare"), "Bare"),
    ]


def test_markdown_in_fences_has_no_headings(write):
    """A comment of a shell script is no heading, nor is a rule below a list or a table one."""
    path = write(
        "a.md", "# A\n```sh\n# not a heading\n```\n~~~~\n~~~\n# nor this\n~~~~\n- item\n---\n|a|b|\n|---|---|\n"
    )
    (section,) = read(path)
    assert section.headings == ("A",)
    assert "# not a heading" in section.text
    assert "# nor this" in section.text


def test_front_matter_is_metadata(write):
    """Its title stands above all headings; a rule that is never closed is text."""
    (section,) = read(write("a.md", '---\ntitle: "Manual"\nyear: 2024\ntags: [a]\n---\n# Use\nText\n'))
    assert section.headings == ("Manual", "Use")
    assert section.metadata == {"year": 2024, "line": 7}
    assert read(write("b.md", "---\nNo front matter\n"))[0].text == "---\nNo front matter"
