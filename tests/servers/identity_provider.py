"""An identity provider on loopback: its metadata, its keys, and tokens of any kind."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm


class IdentityProvider:
    """A provider with one current key.

    Attributes:
        url: Its issuer.
        requests: The paths that were asked for.
        is_down: Whether it answers every request with 503.
        changes: Of its metadata.
        keys: Private keys by their kid.
        published: The kids in its document.
    """

    def __init__(self, keys):
        self.requests, self.is_down, self.changes = [], False, {}
        self.keys, self.published = keys, ["k1"]
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                provider.requests.append(self.path)
                status, document = provider.answer(self.path)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path):
        if self.is_down:
            return 503, {}
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.changes}
        return (200, self.jwks()) if path == "/keys" else (404, {})

    def jwks(self):
        """Return the document with the published keys."""
        public = {kid: RSAAlgorithm.to_jwk(self.keys[kid].public_key(), as_dict=True) for kid in self.published}
        return {"keys": [{**key, "kid": kid, "use": "sig"} for kid, key in public.items()]}

    def token(self, *, key="k1", algorithm="RS256", header=None, **changes):
        """Make a token; a claim that is None is left out."""
        claims = {"iss": self.url, "aud": "flexchat", "exp": time.time() + 60, "sub": "ann", "org": "acme"} | changes
        claims = {name: value for name, value in claims.items() if value is not None}
        signer = self.keys.get(key, key) if algorithm != "none" else None
        kid = key if key in self.keys else "k1"
        return jwt.encode(claims, signer, algorithm, headers={"kid": kid, **(header or {})})


@pytest.fixture(scope="session")
def signing_keys():
    return {kid: rsa.generate_private_key(public_exponent=65_537, key_size=2_048) for kid in ("k1", "k2")}


@pytest.fixture
def provider(signing_keys):
    provider = IdentityProvider(signing_keys)
    yield provider
    provider.close()
