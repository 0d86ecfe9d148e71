"""Those who should not get in: programs that choose their own headers, and a page elsewhere."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

from playing import SERVED
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

NAME = "evil.example"
"""A name that somebody else points at 127.0.0.1."""


class Answer:
    """What a request got: its status, headers and text."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        self.text = response.read().decode(errors="replace")


def ask(address: str, path: str = "/", *, method: str = "GET", **headers: str) -> Answer:
    """One request with these headers and no others, `host="..."` among them."""
    port = urlsplit(address).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    path = urlsplit(address).path + path
    connection.putrequest(method, path, skip_host="host" in sent, skip_accept_encoding=True)
    for key, value in sent.items():
        connection.putheader(key, value)
    connection.endheaders()
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def cookie_of(address: str) -> str:
    """What a browser sends that was let in."""
    entered = ask(address, f"/?access_token={SERVED[address].token}")
    assert entered.status == 303
    return entered.headers["set-cookie"].partition(";")[0]


def socket_status(address: str, path: str, **headers: str) -> int:
    """101 where a WebSocket is opened, else the status it is refused with."""
    try:
        with connect(
            address.replace("http", "ws") + path,
            origin=None,
            additional_headers=headers,
            proxy=None,
        ):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def pages_open(address: str) -> int:
    """How many pages marimo serves: only a page opens models."""
    answer = ask(address, "/api/status/connections", cookie=cookie_of(address))
    assert answer.text.startswith('{"active":'), answer.text
    return int(answer.text.removeprefix('{"active":').rstrip("}"))


@contextmanager
def foreign_page(html: str, seen: list[tuple[str, str | None]] | None = None) -> Iterator[int]:
    """Another server of this machine, whose every page is `html`; gives its port.

    `seen` gets the path and the cookie of every request.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seen is not None and self.path != "/favicon.ico":
                seen.append((self.path, self.headers["Cookie"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
