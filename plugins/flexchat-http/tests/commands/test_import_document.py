"""flexchat tools import: looking at a document before it is used."""

import json

import pytest
from flexchat.config.document import parse_document
from flexchat_cli.main import main
from openapi_documents import document, written

PETS = document(
    {
        "/pets": {"get": {"operationId": "listPets", "summary": "List\nall pets."}, "post": {"operationId": "addPet"}},
        "/bad": {"get": {"requestBody": {"required": True, "content": {}}}},
    }
)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command in a folder with a document; return its status, output and remarks."""
    monkeypatch.chdir(tmp_path)

    def start(*words, data=PETS):
        written(tmp_path, data)
        status = main(["tools", "import", *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return start


def test_the_list_has_names_places_and_prices(run):
    status, out, err = run("openapi.json", "--list")

    assert status == 0
    assert [line.split(maxsplit=1)[1] for line in out.splitlines()] == [
        "listPets  GET /pets  List all pets.",
        "addPet    POST /pets",
    ]
    assert "2 operations, about " in err
    assert "GET /bad cannot be a tool: its body has no media type" in err


def test_without_list_the_lines_of_config_are_printed(run):
    out = run("openapi.json", "--include", "GET", "--exclude", "/bad")[1]

    assert out == '[[tools.openapi]]\ndocument = "openapi.json"\ninclude = ["GET"]\nexclude = ["/bad"]\n'


def test_the_lines_name_the_credentials_and_need_no_config(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text("")
    schemes = {"my key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "pw": {"type": "http", "scheme": "basic"}}
    operation = {"operationId": "a", "security": [{"my key": [], "pw": []}]}
    data = document({"/a": {"get": operation}}, components={"securitySchemes": schemes})
    out, err = run("openapi.json", data=data)[1:]

    assert 'auth."my key" = "${MY_KEY}"  # a key\nauth.pw = "${PW}"  # USER:PASSWORD\n' in out
    assert "1 operation, about " in err


@pytest.mark.parametrize("name", ["flexchat.toml", "flexchat.yaml", "flexchat.json"])
def test_the_lines_are_in_the_form_of_the_config(run, tmp_path, name):
    """Put into it, they are the same tables."""
    (tmp_path / name).write_text("{}" if name.endswith("json") else "")
    schemes = {"my key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "on": {"type": "http", "scheme": "basic"}}
    operation = {"operationId": "a", "security": [{"my key": [], "on": []}]}
    data = document({"/a": {"get": operation}}, components={"securitySchemes": schemes})
    out, err = run("openapi.json", "--include", "GET", data=data)[1:]

    auth = {"my key": "${MY_KEY}", "on": "${ON}"}
    table = {"document": "openapi.json", "include": ["GET"], "auth": auth}
    assert parse_document(out, name).data == {"tools": {"openapi": [table]}}
    assert "USER:PASSWORD" in out + err


def test_json_has_all_of_it(run):
    data = json.loads(run("openapi.json", "--list", "--json")[1])

    assert [each["name"] for each in data["operations"]] == ["listPets", "addPet"]
    assert data["left_out"][0]["place"] == "GET /bad"


def test_the_list_is_bounded(run):
    paths = {f"/{n}": {"get": {"operationId": f"op{n}", "description": "x" * 5000}} for n in range(500)}
    out = run("openapi.json", "--list", data=document(paths))[1]

    assert len(out) < 15_000
    assert "and 400 more" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["openapi.json", "--include", "nobody"], "'nobody' fits no operation"),
        (["missing.json"], "there is no such file"),
        (["ftp://x/y"], "a document is a path, or a URL"),
        (["http://127.0.0.1:1/x.json"], "127.0.0.1:1 may not be reached"),
        (["http://127.0.0.1:1/x.json"], "[network] allow"),
    ],
)
def test_what_cannot_be_read_is_said(run, words, said):
    status, _, err = run(*words)

    assert status == 2
    assert said in err
    assert "Traceback" not in err


RELATIVE = document({"/a": {"get": {"operationId": "a"}}}, servers=[{"url": "/v1"}])


def test_a_file_without_a_server_gets_a_line_for_it(run):
    """The line names a variable, so that a config without it is refused and not called."""
    out, err = run("openapi.json", data=RELATIVE)[1:]

    assert 'server = "${SERVER_URL}"\n' in out
    assert "the document does not name its server: set SERVER_URL to the URL its paths are appended to" in err
    assert "1 operation, about " in err


def test_a_server_on_the_command_line_is_printed(run):
    out, err = run("openapi.json", "--server", "https://a.example/v1", data=RELATIVE)[1:]

    assert 'server = "https://a.example/v1"\n' in out
    assert "SERVER_URL" not in out + err


def test_json_says_whether_a_server_is_needed(run):
    assert json.loads(run("openapi.json", "--json", data=RELATIVE)[1])["needs_server"] is True
    assert json.loads(run("openapi.json", "--json")[1])["needs_server"] is False


HIDDEN = "\u202e\u200b\U000e0041\x1b\x07\xad"


def test_no_character_that_nobody_sees_is_printed(run):
    """Of a description, a path, an id, a scheme, and of what cannot be a tool."""
    schemes = {f"ke{HIDDEN}y": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    operation = {
        "operationId": "list",
        "description": f"List{HIDDEN} all.\r\nReally.",
        "security": [{f"ke{HIDDEN}y": []}],
    }
    bad = {"get": {"operationId": f"ba{HIDDEN}d", "requestBody": {"required": True, "content": {}}}}
    data = document({f"/a{HIDDEN}": {"get": operation}, f"/bad{HIDDEN}": bad}, components={"securitySchemes": schemes})
    for words in (["--list"], [], ["--json"]):
        status, out, err = run("openapi.json", *words, data=data)
        assert status == 0
        if words == ["--json"]:
            out = json.dumps(json.loads(out), ensure_ascii=False)
        assert not {*HIDDEN, "\N{REPLACEMENT CHARACTER}"} & {*out, *err}
    assert "List all. Really." in run("openapi.json", "--list", data=data)[1]


@pytest.mark.parametrize("name", ["flexchat.toml", "flexchat.yaml", "flexchat.json"])
def test_a_credential_with_such_characters_keeps_its_name(run, tmp_path, name):
    (tmp_path / name).write_text("{}" if name.endswith("json") else "")
    key = "k\u202ee\U000e0041y"
    schemes = {key: {"type": "apiKey", "in": "header", "name": "X-Key"}}
    data = document(
        {"/a": {"get": {"operationId": "a", "security": [{key: []}]}}}, components={"securitySchemes": schemes}
    )
    out = run("openapi.json", data=data)[1]

    (table,) = parse_document(out, tmp_path / name).data["tools"]["openapi"]
    assert [*table["auth"]] == [key]
