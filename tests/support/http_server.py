"""A real HTTP server that behaves as badly as it is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Site:
    """`cut_after`: for each request in turn, how many bytes come before the connection is cut."""

    content: bytes
    ranges: bool = True
    status: int = 200
    says_length: bool = True
    cut_after: list[int] = field(default_factory=list)
    url: str = ""
    asked: list[str | None] = field(default_factory=list)


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers["Range"]
            site.asked.append(asked)
            if site.status != 200:
                self.send_error(site.status)
                return
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and site.ranges else 0
            if start and start >= len(site.content):
                self.send_error(416)
                return
            body = site.content[start:]
            self.send_response(206 if start else 200)
            if start:
                last = len(site.content) - 1
                self.send_header("Content-Range", f"bytes {start}-{last}/{len(site.content)}")
            if site.says_length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: site.cut_after.pop(0)] if site.cut_after else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/cifar-10-python.tar.gz"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
