"""References: where they lead, and where they may not."""

import asyncio
import json
import os

import pytest
from flexchat_http.openapi.convert import convert
from flexchat_http.openapi.library import Library, open_library
from flexchat_http.openapi.reading import DocumentError, Unusable
from openapi_documents import document, library, opened, written

ROOT = "https://docs.example/api/openapi.json"


def body(reference):
    content = {"application/json": {"schema": {"$ref": reference}}}
    return document({"/x": {"post": {"operationId": "x", "requestBody": {"required": True, "content": content}}}})


def only(found: Library):
    done = convert(found)
    return done.tools[0].parameters if done.tools else done.left_out[0].why


@pytest.mark.parametrize(
    "step", [("a/b", "a~1b"), ("a~b", "a~0b"), ("a b", "a%20b"), ("0", "0"), ("é", "%C3%A9")], ids=str
)
def test_pointers_are_decoded(step):
    data = {"openapi": "3.0.0", "components": {step[0]: {"found": 1}}}

    assert library(data).follow({"$ref": f"#/components/{step[1]}"}, ROOT)[0] == {"found": 1}


def test_references_follow_each_other_and_circles_end():
    data = {"a": {"$ref": "#/b"}, "b": {"$ref": "#/c/0"}, "c": [{"x": 1}], "d": {"$ref": "#/d"}}

    assert library(data).follow(data["a"], ROOT) == ({"x": 1}, ROOT, f"{ROOT}#/c/0")
    with pytest.raises(Unusable, match="refers to itself"):
        library(data).follow(data["d"], ROOT)


def test_files_beside_the_document_are_read(tmp_path):
    (tmp_path / "parts").mkdir()
    written(tmp_path, "Pet:\n  type: object\n  properties:\n    owner: {$ref: 'more.json#/Owner'}\n", "parts/pets.yaml")
    written(tmp_path, {"Owner": {"type": "string", "maxLength": 3}}, "parts/more.json")
    path = written(tmp_path, body("parts/pets.yaml#/Pet"))

    assert only(opened(path))["properties"] == {"owner": {"type": "string", "maxLength": 3}}


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("/etc/passwd", "it is outside"),
        ("file:///etc/passwd#/x", "it is outside"),
        ("../secret.json", "it is outside"),
        ("..%2fsecret.json", "it is outside"),
        ("inside/../../secret.json", "it is outside"),
        ("link.json", "it is outside"),
        ("missing.json", "there is no such file"),
        ("ftp://x/y.json", "not a file or an http"),
        ("http://169.254.169.254/latest", "not followed; allow them with remote_refs"),
        ("#/components/schemas/None", "leads nowhere: there is no 'components'"),
        ("#anchor", "names an anchor"),
    ],
)
def test_what_may_not_be_read_is_not_and_only_who_needs_it_is_left_out(tmp_path, reference, why):
    (tmp_path / "docs").mkdir()
    written(tmp_path, {"secret": 1}, "secret.json")
    os.symlink(tmp_path / "secret.json", tmp_path / "docs" / "link.json")
    data = body(reference)
    data["paths"]["/y"] = {"get": {"operationId": "y"}}
    path = written(tmp_path / "docs", data)

    done = convert(opened(path))

    assert [tool.name for tool in done.tools] == ["y"]
    assert why in done.left_out[0].why
    assert (done.left_out[0].name, done.left_out[0].place) == ("x", "POST /x")


def served(pages):
    asked = []

    async def fetch(url):
        asked.append(url)
        if url not in pages:
            raise OSError("no such page")
        return pages[url].encode()

    return fetch, asked


def test_a_document_from_a_url_may_refer_to_its_folder_and_elsewhere_only_if_allowed():
    pages = {
        ROOT: json.dumps(body("https://other.example/x.json#/X")),
        "https://other.example/x.json": '{"X": {"type": "integer"}}',
    }
    fetch, asked = served(pages)
    found = asyncio.run(open_library(ROOT, fetch=fetch, remote=False))
    assert "remote_refs" in only(found)
    assert asked == [ROOT]

    found = asyncio.run(open_library(ROOT, fetch=fetch, remote=True))
    assert only(found)["properties"] == {"body": {"type": "integer"}}

    pages[ROOT] = json.dumps(body("file:///etc/passwd"))
    assert "may not refer to files" in only(asyncio.run(open_library(ROOT, fetch=fetch, remote=True)))
    pages[ROOT] = json.dumps(body("gone.json"))
    assert "no such page" in only(asyncio.run(open_library(ROOT, fetch=fetch, remote=False)))


def test_what_cannot_be_opened_is_said(tmp_path):
    for name, why in (
        (str(tmp_path / "no.json"), "there is no such file"),
        (ROOT, "no URL is read"),
        ("ftp://x", "path"),
    ):
        with pytest.raises(DocumentError, match=why):
            asyncio.run(open_library(name, fetch=None, remote=False))


def test_a_chain_of_files_ends(tmp_path):
    for number in range(150):
        written(tmp_path, {"X": {"$ref": f"{number + 1}.json#/X"}}, f"{number}.json")
    path = written(tmp_path, body("0.json#/X"))

    assert opened(path).missing.popitem()[1] == "the document refers to more than 100 files"


@pytest.mark.parametrize("root", ["https://docs.example", "https://docs.example/openapi.json?of=/a/b"])
def test_only_urls_of_the_documents_own_site_are_in_its_folder(root):
    """A URL without a path has one, too: other hosts are not in it."""
    pages = {
        root: json.dumps(body("https://other.example/x.json#/X")),
        "https://other.example/x.json": '{"X": {}}',
    }
    fetch, asked = served(pages)
    assert "remote_refs" in only(asyncio.run(open_library(root, fetch=fetch, remote=False)))
    assert asked == [root]


def test_a_document_that_refers_to_a_thousand_places_makes_a_hundred_requests():
    """Also if none of them answers."""
    pages = {ROOT: json.dumps(document({f"/{n}": {"$ref": f"p{n}.json"} for n in range(1_000)}))}
    fetch, asked = served(pages)

    found = asyncio.run(open_library(ROOT, fetch=fetch, remote=False))

    assert len(asked) == 101
    assert len(found.missing) == 1_000


def test_files_are_bounded_together(monkeypatch):
    """Each may be as large as a document."""
    monkeypatch.setattr("flexchat_http.openapi.library.MAX_TOTAL_BYTES", 10_000)
    pages = {ROOT: json.dumps(document({f"/{n}": {"$ref": f"p{n}.json"} for n in range(9)}))}
    pages |= {ROOT.replace("openapi", f"p{n}"): json.dumps({"x": "y" * 4_000}) for n in range(9)}
    fetch, asked = served(pages)

    found = asyncio.run(open_library(ROOT, fetch=fetch, remote=False))

    assert len(asked) == 4
    assert "MiB together" in found.missing.popitem()[1]
