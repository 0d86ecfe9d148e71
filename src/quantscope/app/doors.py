"""Let in the person who started the page, and nobody else.

marimo asks for a token, which stands in the address that is printed and then becomes a cookie. A
browser, though, sends that cookie whoever makes it ask, to every port of the machine, and anybody
can point a name of their own at 127.0.0.1. So the page stands under a path that nobody can guess,
to which the cookie is bound, and more doors stand around marimo's server, the outermost first:

1. `Doors` refuses what another page causes, and adds headers that keep browsers careful.
2. Starlette's `TrustedHostMiddleware` refuses names that are not this server's.
3. `TokenForAll`, behind marimo's own check, asks for the token where marimo does not, as for its
   static files.
"""

import html
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_EVERYWHERE = ("0.0.0.0", "::")
_TOKEN, _TICKET = "access_token", "ticket"

# Below the page's own path. The page leads those without the token to marimo's form for it. The
# manifest holds nothing, and browsers fetch it without cookies.
_WITHOUT_TOKEN = ("/", "/auth/login", "/manifest.json")

# marimo's page has scripts and styles in its text and loads widgets from blobs; its editor compiles
# WebAssembly.
_CONTENT_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Keys:
    """The secrets of one server, made anew for each.

    The page stands under `path`. The token lets in whoever has it. The ticket is exchanged for the
    token, once, and only by the person who started the server: it stands in the command line of the
    browser that is started, which every user of the machine can read.
    """

    def __init__(self) -> None:
        self.path = f"/{token_urlsafe(16)}"
        self.token = token_urlsafe(32)
        self.ticket = token_urlsafe(32)

    def fit(self, query: dict[str, list[str]], scope: Scope) -> bool:
        """Tell whether a request holds the token, or the ticket, which is then used up."""
        if _is_same(query, _TOKEN, self.token):
            return True
        fits = bool(self.ticket) and _is_same(query, _TICKET, self.ticket) and _is_own_user(scope)
        if fits:
            self.ticket = ""
        return fits


class Doors:
    """The outermost middleware: what another page causes does not come in.

    Browsers name the page that caused a request: `Origin` for WebSockets, POSTs and what scripts
    fetch, `Sec-Fetch-Site` for all others, links that are followed among them. Programs that are no
    browsers send neither; they need the token like everybody.
    """

    def __init__(self, app: ASGIApp, *, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            # `checked` starts the server only where this was run.
            scope["app"].state.has_doors = True
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        is_page = scope["type"] == "http" and scope["path"] == f"{self._keys.path}/"
        send = _add_headers(send)
        if any(origin != _own_origin(scope, headers) for origin in headers.getlist("origin")):
            await _refuse(scope, receive, send)
        elif is_page and (is_foreign or _TICKET in query) and self._keys.fit(query, scope):
            await self._lead_in(query)(scope, receive, send)
        elif is_foreign or not _is_plain(query, headers):
            await _refuse(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _lead_in(self, query: dict[str, list[str]]) -> HTMLResponse:
        """Answer with a page that asks again by itself.

        A redirect would still be the other page's doing.
        """
        place = {key: value for key, value in query.items() if key != _TICKET}
        own = html.escape(urlencode({**place, _TOKEN: [self._keys.token]}, doseq=True))
        address = f"{self._keys.path}/?{own}"
        return HTMLResponse(
            f'<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url={address}">'
        )


class TokenForAll:
    """The innermost middleware: nothing is answered for those whom marimo did not let in."""

    def __init__(self, app: ASGIApp, *, keys: Keys) -> None:
        self._app = app
        self._open = [f"{keys.path}{path}" for path in _WITHOUT_TOKEN]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asks = scope["type"] in ("http", "websocket") and scope["path"] not in self._open
        if asks and not scope["user"].is_authenticated:
            text = "Open the address that quantscope printed when it was started; it has the token."
            await PlainTextResponse(text, status_code=401)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@contextmanager
def doors_of_marimo(keys: Keys, host: str, ready: Callable[[], None]) -> Iterator[None]:
    """Let the server that marimo starts in this block stand behind the doors.

    `ready` is called when it is about to listen, and says the address. marimo lets others add
    middleware, but only inside its own; so the function that makes its server is wrapped. A marimo
    that makes it otherwise does not start.
    """
    from marimo._server import start
    from marimo._server.api import lifespans
    from marimo._server.main import create_starlette_app
    from marimo._server.registry import LIFESPAN_REGISTRY

    def make_with_doors(**options: Any) -> Starlette:
        app = create_starlette_app(**options, middleware=[Middleware(TokenForAll, keys=keys)])
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=names_of(host), www_redirect=False)
        app.add_middleware(Doors, keys=keys)
        return app

    @asynccontextmanager
    async def checked(app: Starlette) -> AsyncIterator[None]:
        if not getattr(app.state, "has_doors", False):
            raise RuntimeError("this marimo's server cannot be guarded; install marimo 0.25")
        ready()
        yield

    LIFESPAN_REGISTRY.register("quantscope", checked)
    try:
        with (
            _replace(start, "create_starlette_app", make_with_doors),
            # It would say `localhost`, which may be ::1, where another user can listen.
            _replace(lifespans, "print_startup", lambda **_: None),
        ):
            yield
    finally:
        LIFESPAN_REGISTRY.unregister("quantscope")


@contextmanager
def _replace(module: ModuleType, name: str, value: object) -> Iterator[None]:
    """Put `value` in the place of something that must be there, while the block runs."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def addresses_of(host: str) -> list[str]:
    """List the addresses at which a server bound to `host` is reached, as they stand in a URL."""
    found = [host.strip("[]")]
    if host in _EVERYWHERE:
        found = ["127.0.0.1", *_network_addresses(socket.AF_INET, "192.0.2.1")]
    if host == "::":
        found += _network_addresses(socket.AF_INET6, "2001:db8::1")
    return [f"[{address}]" if ":" in address else address for address in found]


def names_of(host: str) -> list[str]:
    """List all that may stand in `Host` when a server bound to `host` is asked."""
    machine = [socket.gethostname(), socket.getfqdn()] if host in _EVERYWHERE else []
    return [*LOOPBACK, *addresses_of(host), *machine]


def _network_addresses(family: socket.AddressFamily, far_away: str) -> Iterator[str]:
    """Find the address that this machine has in its network, if any, without sending anything."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket only chooses the route. The address is one reserved for
            # examples.
            probe.connect((far_away, 9))
            yield probe.getsockname()[0]
    except OSError:
        return


def _is_own_user(scope: Scope) -> bool:
    """Tell whether a connection from this machine is of the user who runs the server.

    Linux lists the owner of every connection; where nothing is listed, nothing is known.
    """
    (_, client), (_, server) = scope["client"], scope["server"]
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            _, local, remote, *_, uid = line.split()[:8]
            if (local[-5:], remote[-5:]) == (f":{client:04X}", f":{server:04X}"):
                return int(uid) == os.getuid()
    return True


def _is_plain(query: dict[str, list[str]], headers: Headers) -> bool:
    """Tell whether the tokens of a request can be compared: marimo fails at other letters."""
    return "".join((*query.get(_TOKEN, ()), headers.get("authorization", ""))).isascii()


def _is_same(query: dict[str, list[str]], key: str, secret: str) -> bool:
    # It takes the same time wherever the two differ, so guesses learn nothing.
    return compare_digest(query.get(key, [""])[-1].encode(), secret.encode())


def _own_origin(scope: Scope, headers: Headers) -> str:
    """Give the origin of pages that come from here, under the name that was asked."""
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    return f"{scheme}://{headers.get('host', '')}"


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    text = "Another page asked for this; open the address that quantscope printed instead."
    await PlainTextResponse(text, status_code=403)(scope, receive, send)


def _add_headers(send: Send) -> Send:
    """Add our headers to every answer, and make cookies strict."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            MutableHeaders(scope=message).update(_HEADERS)
            # Links of other pages come without the cookie then, in browsers of any age.
            message["headers"] = [
                (key, value.replace(b"samesite=lax", b"samesite=strict"))
                for key, value in message["headers"]
            ]
        await send(message)

    return send_with_headers
