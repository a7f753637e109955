"""The topology of examples/deploy as processes: two servers behind nginx with TLS, at the root and below a path.

The site of examples/deploy and that of docs/deploying.md are used as they stand, but for addresses and certificates.
"""

import contextlib
import datetime
import ipaddress
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from web_browser import expect, open_browser
from web_server import WebServer

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-acme-0123456789"
ELSEWHERE = "127.0.0.9"
"""An address of loopback that is neither nginx's nor a server's."""

CONFIG = """
[conversations]
path = "{folder}/conversations.db"

[llms.model]
provider = "openai"
base_url = "{model}"
api_key = "no-key-at-all"

[[responses]]
llm = "model"
model = "m"
"""

pytestmark = pytest.mark.slow


def installed_nginx():
    """The program's path; without it, the test is skipped."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip("nginx is not installed")
    return found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The folder of a self-made certificate for 127.0.0.1, under the names that the site has."""
    folder = tmp_path_factory.mktemp("tls")
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "chat.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    unencrypted = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unencrypted)
    (folder / "chat.key").write_bytes(pem)
    return folder


class SlowModel(BaseHTTPRequestHandler):
    """Chat Completions, streamed: the second word is sent once the first one has arrived at the reader."""

    has_arrived = threading.Event()

    def do_POST(self):
        """Answer with two words."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self._send({"content": "First"})
        if not self.has_arrived.wait(20):
            return  # the reader got nothing, so a buffer is in the way
        self._send({"content": " second"})
        self._send({}, finish="stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.wfile.write(f"data: {json.dumps({'id': 'c', 'model': 'm', 'choices': [choice]})}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format, *args):
        """Write nothing."""


@pytest.fixture(scope="module")
def model():
    """The address of the model's service."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowModel)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    SlowModel.has_arrived.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def start_server(tmp_path_factory, model):
    """Start a server: start_server(*options); all of them share the data folder."""
    shared = tmp_path_factory.mktemp("servers")
    (shared / "tokens").write_text(f"acme {TOKEN}\n")
    (shared / "tokens").chmod(0o600)
    with contextlib.ExitStack() as stack:

        def start(*options):
            folder = tmp_path_factory.mktemp("server")
            (folder / "data").symlink_to(shared, target_is_directory=True)
            config = CONFIG.format(folder=shared, model=model)
            server = WebServer(folder, config, "--token-file", str(shared / "tokens"), *options)
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture(scope="module")
def start_nginx(certificate, tmp_path_factory):
    """Start nginx with a site: start_nginx(text) gives its address, which ends with a slash."""
    nginx = installed_nginx()
    with contextlib.ExitStack() as stack:

        def start(site):
            folder = tmp_path_factory.mktemp("nginx")
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            site = site.replace("listen 443", f"listen 127.0.0.1:{port}").replace("/etc/nginx/tls", str(certificate))
            version = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=True).stderr
            if tuple(map(int, re.findall(r"\d+", version)[:3])) < (1, 25, 1):
                site = site.replace("http2 on;", "").replace(" ssl;", " ssl http2;")
            kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            folders = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
            file, errors = folder / "nginx.conf", folder / "error.log"
            # In one process, which may write where the test may.
            file.write_text(
                f"daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log {errors};\n"
                f"events {{}}\nhttp {{\naccess_log off;\n{folders}{site}\n}}\n"
            )
            process = subprocess.Popen([nginx, "-p", folder, "-e", errors, "-c", file])
            stack.callback(process.wait)
            stack.callback(process.terminate)
            end = time.monotonic() + 20
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    return f"https://127.0.0.1:{port}/"
                assert process.poll() is None, errors.read_text()
                assert time.monotonic() < end
                time.sleep(0.02)

        yield start


@pytest.fixture(scope="module")
def below_a_path(start_server, start_nginx):
    """A server below the path /chat of a site, as on the page about deploying: the server, and its address."""
    server = start_server("--root-path", "/chat", "--trusted-proxy", "127.0.0.1")
    page = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    location = re.search(r"```nginx\n(location /chat/ .*?)```", page, re.DOTALL)
    assert location is not None
    location = location[1].replace("http://127.0.0.1:8000/", server.url)
    tls = "ssl_certificate /etc/nginx/tls/chat.crt;\nssl_certificate_key /etc/nginx/tls/chat.key;\n"
    return server, f"{start_nginx(f'server {{ listen 443 ssl; {tls}{location}}}')}chat/"


@pytest.fixture
def behind_the_example(start_server, start_nginx):
    """Two servers behind the site of examples/deploy, and its address."""
    servers = [start_server("--trusted-proxy", "127.0.0.1") for _ in range(2)]
    site = (ROOT / "examples" / "deploy" / "nginx.conf").read_text("utf-8")
    for number, server in enumerate(servers, 1):
        site = site.replace(f"server-{number}:8000", httpx.URL(server.url).netloc.decode())
    return servers, start_nginx(site)


@pytest.fixture
def client(certificate):
    """A client in another place than the servers, which knows the certificate."""
    tls = ssl.create_default_context(cafile=certificate / "chat.crt")
    with httpx.Client(transport=httpx.HTTPTransport(verify=tls, local_address=ELSEWHERE), timeout=60) as made:
        yield made


def sign_in(client, url):
    """Sign in as the page does; returns the header Set-Cookie."""
    origin = "/".join(url.split("/")[:3])
    signed_in = client.post(f"{url}api/session", json={"token": TOKEN}, headers={"origin": origin})
    assert signed_in.status_code == 204, signed_in.text
    return signed_in.headers["set-cookie"]


def read_stream(client, url, **headers):
    """Ask a question, and let the model go on once its first word is here."""
    SlowModel.has_arrived.clear()
    words, body = [], {"prompt": "Hi", "stream": True}
    with client.stream("POST", f"{url}chat/api", json=body, headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("data: ") and (text := json.loads(line[6:]).get("text")):
                words.append(text)
                SlowModel.has_arrived.set()
    return words[:2]


def read_statuses(client, address, times=1):
    """The statuses of that many requests."""
    return {client.get(address).status_code for _ in range(times)}


def lines_of(server, path):
    """The lines of the log about requests for a path."""
    return [line for line in server.log.splitlines() if "flexchat_web.access" in line and path in line]


def test_a_browser_s_session_holds_at_both_servers_and_one_may_go(behind_the_example, client):
    servers, url = behind_the_example

    cookie = sign_in(client, url)
    statuses = read_statuses(client, f"{url}api/ui-config", times=6)
    words = read_stream(client, url)
    are_both_asked = all(lines_of(server, "/api/ui-config") for server in servers)
    servers[0].kill()
    later = read_statuses(client, f"{url}api/ui-config", times=4)

    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    assert (statuses, are_both_asked, later) == ({200}, True, {200})
    assert words == ["First", " second"]
    assert read_stream(client, url) == ["First", " second"]


def test_a_token_and_a_session_are_accepted_below_a_path(below_a_path, client):
    _, url = below_a_path

    by_token = read_stream(client, url, authorization=f"Bearer {TOKEN}")
    stranger = read_statuses(client, f"{url}api/ui-config")
    cookie = sign_in(client, url)
    by_cookie = read_stream(client, url)
    signed_out = client.delete(f"{url}api/session")

    assert (by_token, by_cookie, stranger) == (["First", " second"], ["First", " second"], {401})
    assert cookie.endswith("; Path=/chat; HttpOnly; SameSite=Strict; Secure")
    assert signed_out.headers["set-cookie"].startswith("flexchat_session=; Path=/chat;")
    assert read_statuses(client, f"{url}api/ui-config") == {401}


def test_a_link_with_a_token_signs_in_below_a_path(below_a_path, client):
    _, url = below_a_path

    link = client.get(f"{url}?token={TOKEN}")

    assert (link.status_code, link.headers["location"]) == (303, "/chat/")
    assert read_statuses(client, url) == {200}
    assert read_statuses(client, f"{url}api/ui-config") == {200}


def test_addresses_are_believed_of_a_trusted_proxy_only(below_a_path, client):
    server, url = below_a_path
    forged = {"x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https"}

    client.get(f"{url}api/ui-config", headers=forged)
    client.get(f"{server.url}api/tools/list", headers=forged)
    by_another = client.post(f"{server.url}api/session", json={"token": TOKEN}, headers=forged)

    assert lines_of(server, "/api/ui-config")[-1].count(f"from {ELSEWHERE} ") == 1
    assert lines_of(server, "/api/tools/list")[-1].count(f"from {ELSEWHERE} ") == 1
    assert "Secure" not in by_another.headers["set-cookie"]
    assert "203.0.113.7" not in server.log


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://127.0.0.1"}, 403),  # another port is another site
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example"}, 421),
        ({}, 200),
    ],
)
def test_pages_of_other_sites_are_refused_below_a_path(below_a_path, client, headers, status):
    _, url = below_a_path
    sign_in(client, url)

    assert client.get(f"{url}api/ui-config", headers=headers).status_code == status


def test_a_websocket_is_an_ordinary_request(below_a_path, client):
    _, url = below_a_path
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}

    assert client.get(f"{url}health", headers={**upgrade, "sec-websocket-key": "AA=="}).status_code == 200


@pytest.fixture(scope="module")
def browser():
    yield from open_browser()


def test_the_page_works_below_a_path(below_a_path, browser):
    _, url = below_a_path
    context, requests = browser.new_context(ignore_https_errors=True), []
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url))
    SlowModel.has_arrived.clear()

    page.goto(url)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("textbox", name="Message").fill("Hi")
    page.keyboard.press("Enter")

    expect(page.get_by_role("article", name="Answer")).to_contain_text("First")
    SlowModel.has_arrived.set()
    expect(page.get_by_role("article", name="Answer")).to_contain_text("First second")
    assert [request for request in requests if not request.startswith((url, "data:", "blob:"))] == []
    context.close()
