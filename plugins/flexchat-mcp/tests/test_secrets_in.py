"""Secrets in arguments and URLs are found where people write them."""

import pytest
from flexchat_mcp.settings import hidden, secrets_in


@pytest.mark.parametrize(
    ("arguments", "secrets"),
    [
        (["npx", "-y", "server", "--api-key", "abc123"], ["abc123"]),
        (["npx", "server", "--api-key=abc123"], ["abc123"]),
        (["npx", "server", "--token", "x"], ["x"]),
        (["docker", "run", "-e", "API_KEY=abc", "-e", "LEVEL=3", "image"], ["abc"]),
        (["npx", "mcp-remote", "https://x.example", "--header", "Authorization: Bearer abc"], ["abc"]),
        (["npx", "server", "postgres://ada:secret@db/x"], ["secret"]),
        (["server", "https://x.example/mcp?api_key=abc&v=2"], ["abc"]),
        (["server", "ghp_0123456789abcdefghij"], ["ghp_0123456789abcdefghij"]),
        (["server", "--api-key", "${API_KEY}"], []),
        (["server", "--api-key", "--verbose"], []),
        (["uvx", "mcp-server-time", "--local-timezone=Europe/Berlin"], []),
        (["npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/ada/docs"], []),
    ],
    ids=" ".join,
)
def test_the_secrets_of_a_command(arguments, secrets):
    assert secrets_in(arguments) == secrets
    assert not any(secret in hidden(" ".join(arguments), secrets).split() for secret in secrets)


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("https://x.example/mcp", []),
        ("https://x.example/mcp?key=abc", ["abc"]),
        ("https://ada:abc@x.example/mcp", ["abc"]),
        ("https://x.example/s/0123456789abcdef0123456789abcdef/mcp", ["0123456789abcdef0123456789abcdef"]),
        ("https://x.example/mcp?key=${KEY}", []),
        ("https://[broken", []),
    ],
)
def test_the_secrets_of_a_url(url, secrets):
    assert secrets_in([], url) == secrets
