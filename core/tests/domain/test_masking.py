"""Secrets do not get out: those we know, and those that look like one."""

import base64
import html
import json
import re
import time
from urllib.parse import quote, quote_plus, urlencode

import pytest
from flexchat.domain.masking import Mask, secrets_of_environment
from hypothesis import given
from hypothesis import strategies as st


@given(st.text(), st.text(min_size=6), st.text())
def test_a_known_secret_is_never_seen(before, secret, after):
    """Wherever it stands in a text."""
    assert secret not in Mask([secret])(f"{before} {secret} {after}") or secret in "***"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgresql://app:s3cretpw@db/prod refused", "s3cretpw"),
        ("login failed: password=hunter2", "hunter2"),
        ("{'api_key': 'abc123', 'x': 1}", "abc123"),
        ('{"access_token": "abc.def"}', "abc.def"),
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("used key sk-proj-abcdefgh12345", "sk-proj-abcdefgh12345"),
        ("DB_PASSWORD: geheim!", "geheim!"),
        ("the password is swordfish", "swordfish"),
        ("the secret is: swordfish", "swordfish"),
        ("token: the-secret", "the-secret"),
        ("password: set!x", "set!x"),
        ("password=set", "=set"),
        ("token: true-love", "true-love"),
        ("password: ...hunter2", "hunter2"),
        ("api_key=${A:-hunter2}", "hunter2"),
        ("Authorization: basic swordfish", "swordfish"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text, secret):
    """A tool's own exception text may carry one nobody told us about."""
    masked = Mask()(text)

    assert secret not in masked
    assert "***" in masked


@pytest.mark.timed
@pytest.mark.parametrize("piece", ["a-", "a.", "a", "token ", "token=", "://:", "key is ", "://a:b", "sk-", "bearer "])
def test_a_long_text_is_masked_in_linear_time(piece):
    """Error texts are long where a tool read a web page; a quadratic pattern would take minutes."""

    def seconds(times: int) -> float:
        text, best, mask = piece * times, 9.0, Mask()
        for _ in range(3):
            started = time.thread_time()
            mask(text)
            best = min(best, time.thread_time() - started)
        return best

    assert seconds(20_000) < 40 * seconds(2_000) + 0.05


@pytest.mark.parametrize(
    "text",
    [
        "Tool 'x' not found",
        "missing 'location'",
        "expected 3 tokens, got 5",
        "see https://example.org/path?page=2",
        "the key of the map is 'city'",
        "[Errno 2] No such file or directory: '/tmp/x'",
        "the secret is written in the file",
        "the API key is missing",
        "this token is already in the file",
        "it needs a token: set FLEXCHAT_TOKEN, or send Authorization: Bearer TOKEN",
        "no access token: the service answered 500",
        "Bearer authentication failed: use bearer tokens",
        'write api_key = "${OPENAI_API_KEY}"',
        "OPENAI_API_KEY=…",
        "must be like postgresql://USER:PASSWORD@HOST:5432/DATABASE",
        '{"token": null, "secret": true}',
    ],
)
def test_ordinary_texts_stay_as_they_are(text):
    """A masked text must still help."""
    assert Mask(["abc"])(text) == text


@given(st.text(min_size=6))
def test_a_secret_in_a_url_is_not_seen_either(secret):
    """As a part of a path or a query, escaped in any of the usual ways."""
    secret = secret.encode("utf-8", "replace").decode()
    forms = {quote(secret), quote(secret, safe=""), urlencode({"k": secret}).removeprefix("k=")}

    assert not any(form in Mask([secret])(f"/?x={form}&z=1") for form in forms)


def test_the_environments_secrets_are_known_by_name():
    """…_KEY, …_TOKEN, …_PASSWORD and the like; short values would blot out ordinary words."""
    environ = {"OPENAI_API_KEY": "sk-123456", "HOME": "/home/me-longer", "DB_PASSWORD": "abc", "GH_TOKEN": "tok-999999"}

    assert secrets_of_environment(environ) == {"sk-123456", "tok-999999"}


def test_the_shells_working_folders_are_no_passwords():
    """PWD and OLDPWD end like a password's name; to mask them would take paths out of every text."""
    assert secrets_of_environment({"PWD": "/work/project", "OLDPWD": "/work", "DB_PWD": "hunter22"}) == {"hunter22"}


SECRET = 'p@ss/w"or\\d+é&1 x'


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(json.dumps({"a": SECRET})),
        json.dumps(json.dumps(json.dumps(SECRET, ensure_ascii=False), ensure_ascii=False)),
        json.dumps(SECRET).replace("/", "\\/"),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower().replace("p%40", "p%40"),
        quote(quote(SECRET, safe=""), safe=""),
        urlencode({"key": SECRET}),
        html.escape(SECRET),
        html.escape(SECRET).replace("&quot;", "&#34;"),
        repr(SECRET),
        repr(SECRET + "'"),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"ada:{SECRET}".encode()).decode(),
        base64.b64encode(f"bo:{SECRET}".encode()).decode(),
        base64.b64encode(f"c:{SECRET} and more".encode()).decode(),
        base64.urlsafe_b64encode(f"a:{SECRET}".encode()).decode(),
    ],
)
def test_a_secret_is_masked_however_it_is_written(written):
    text = f"before {written} after"
    masked = Mask([SECRET]).mask_given(text)

    assert "***" in masked
    assert Mask([SECRET]).knows(text)
    assert not Mask([SECRET]).knows(masked)
    assert not [run for run in re.findall("[A-Za-z0-9]{3,}", SECRET) if run in masked]
    assert masked.startswith("before ")
    assert masked.endswith(" after")


@given(st.text(min_size=6, max_size=20), st.sampled_from([str, json.dumps, quote, quote_plus, repr, html.escape]))
def test_any_secret_is_masked_in_any_form(secret, write):
    try:
        written = write(secret)
    except UnicodeEncodeError:
        written = secret
    assert Mask([secret]).knows(f"a {written} b")


def test_only_the_password_of_a_pair_is_masked_alone():
    mask = Mask(["ada:hunter22"])

    assert mask.mask_given("user ada, password hunter22") == "user ada, password ***"
    assert mask.mask_given("ada:hunter22") == "***"


def test_what_only_looks_like_a_secret_stays_in_data():
    data = {"password": "is required", "next": "token=abcdef123456"}

    assert Mask(["another"]).mask_given_data(data) == data


def test_known_secrets_are_masked_in_keys_and_values():
    assert Mask(["s3cr3t!x"]).mask_given_data({"s3cr3t!x": ["a s3cr3t!x", 1, None]}) == {"***": ["a ***", 1, None]}


@pytest.mark.slow
def test_secrets_added_later_are_masked_and_the_oldest_forgotten():
    mask = Mask(["from-the-start"])
    for number in range(1_500):
        mask.add(f"token-{number:04}")

    assert mask.mask_given("token-1499 from-the-start") == "*** ***"
    assert mask.mask_given("token-0001") == "token-0001"


@pytest.mark.timed
@pytest.mark.parametrize("secret", ["\\" * 20, '"\\"\\"\\"', "a\\\\b\\\\c", "//////", "......", " " * 8])
def test_no_text_makes_the_search_slow(secret):
    mask, started = Mask([secret]), time.thread_time()
    for char in {*secret, "\\"}:
        mask.mask_given(char * 20_000 + secret[:-1] + "x" + "\\" * 20_000)

    assert time.thread_time() - started < 3


@pytest.mark.parametrize(
    "text",
    [
        "PassWord=swordfish-1",
        "passwd: swordfish-1",
        "PWD=swordfish-1",
        "\u017fecret=swordfish-1",
        "to\u212aen=swordfish-1",
        "ap\u0130_key=swordfish-1",
        "Access-Key: swordfish-1",
        "author\u0131zation: Basic swordfish-1",
        "BEARER swordfish-1",
        "see amqp://ann:swordfish-1@host",
        *(f"{start}{joint}swordfish-1" for start in ("sk", "pk", "rk", "ghp", "gho", "xoxb") for joint in "-_"),
    ],
)
def test_what_looks_like_a_secret_is_found_in_any_case_and_anywhere(text):
    """Also with letters that a search without regard to case takes for others."""
    for whole in (text, f"{'ä' * 70_000} {text} {'b ' * 70_000}"):
        masked = Mask()(whole)
        assert "swordfish" not in masked
        assert "***" in masked


@pytest.mark.parametrize("char", ["\x1f", "\n", '"', "é", "\U0001f388", "'"])
@pytest.mark.parametrize("slashes", [1, 2, 3])
def test_a_backslash_before_an_escaped_character_is_no_hiding_place(slashes, char):
    """Its own backslash follows those of the secret without a gap."""
    secret = "swordfish" + "\\" * slashes + char + "000"
    once = json.dumps(secret)
    for written in (once, json.dumps(once), json.dumps(json.dumps(once)), repr(secret), ascii(secret)):
        assert Mask([secret]).mask_given(written).strip("\"\\'") == "***"
