"""Nobody but the person who started it gets into the page, whatever they try."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playing import SERVED, let_in, playing
from playwright.sync_api import Browser, BrowserContext, Page, expect
from starlette.applications import Starlette
from strangers import NAME, ask, cookie_of, foreign_page, pages_open, socket_status
from websockets.sync.client import connect

import find_browser
from quantscope.app.doors import Keys, addresses_of, doors_of_marimo, names_of
from serve_play import serving

SESSION = "/ws?session_id=s_stranger&model=resnet8-uint8&data=/dev/zero"
TERMINAL = "/terminal/ws"
SECRET_PATHS = (
    "/health",
    "/api/version",
    "/api/status/connections",
    "/assets/x.js",
    "/favicon.ico",
)


@pytest.fixture(scope="module")
def door(server: str) -> str:
    return server


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """`quantscope play --edit`, and the folder it was started in."""
    folder = tmp_path_factory.mktemp("editor")
    with playing("--edit", cwd=folder) as address:
        yield address, folder


def test_without_the_token_there_is_only_the_form_for_it(door: str) -> None:
    page = ask(door, "/?model=resnet8-uint8")
    assert page.status == 303
    assert page.headers["location"].startswith(f"{urlsplit(door).path}/auth/login?")
    assert "Access Token" in ask(door, "/auth/login").text
    assert {ask(door, path).status for path in SECRET_PATHS} == {401}
    assert socket_status(door, SESSION) == 401


def test_old_and_wrong_tokens_open_nothing(door: str, editor: tuple[str, Path]) -> None:
    old = cookie_of(editor[0])
    assert SERVED[door].token != SERVED[editor[0]].token
    for path in (f"/?access_token={SERVED[editor[0]].token}", "/?access_token=", "/?ticket="):
        assert ask(door, path).status == 303
    # A cookie has the server's port in its name; this one is of another server at the same port.
    forged = f"{cookie_of(door).partition('=')[0]}={old.partition('=')[2]}"
    assert ask(door, "/health", cookie=forged).status == 401
    assert socket_status(door, SESSION, Cookie=forged) == 401
    assert socket_status(door, f"{SESSION}&access_token={SERVED[editor[0]].token}") == 401


def test_the_token_opens_the_page_and_leaves_its_address(door: str) -> None:
    entered = ask(door, f"/?access_token={SERVED[door].token}&layer=stem")
    path = urlsplit(door).path
    assert (entered.status, entered.headers["location"]) == (303, f"{path}/?layer=stem")
    words = entered.headers["set-cookie"].split("; ")
    assert {"httponly", "samesite=strict", f"path={path}"} <= set(words)
    assert SERVED[door].token not in entered.headers["set-cookie"]
    assert ask(door, "/health", cookie=cookie_of(door)).status == 200


@pytest.mark.parametrize("host", [NAME, f"{NAME}:80", "127.0.0.1.evil.example", "", "10.1.2.3"])
def test_other_names_are_not_served(door: str, host: str) -> None:
    cookie = cookie_of(door)
    assert ask(door, "/", host=host, cookie=cookie).status == 400
    assert socket_status(door, SESSION, Host=host, Cookie=cookie) in (400, 403)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_its_own_names_are_served(door: str, name: str) -> None:
    port = urlsplit(door).port
    for host in (name, f"{name}:{port}", f"{name}:9000"):  # 9000: through a tunnel
        assert ask(door, "/health", host=host, cookie=cookie_of(door)).status == 200


@pytest.mark.parametrize(
    "origin", [f"http://{NAME}", "null", "", "http://localhost:8000", "http://127.0.0.1", "file://"]
)
def test_foreign_origins_are_refused_with_the_cookie_too(
    editor: tuple[str, Path], origin: str
) -> None:
    address, _ = editor
    cookie = cookie_of(address)
    for path in (SESSION, TERMINAL, "/lsp/pylsp"):
        assert socket_status(address, path, Cookie=cookie, Origin=origin) == 403
    for path in ("/api/kernel/run", "/api/files/create", "/auth/login"):
        assert ask(address, path, method="POST", cookie=cookie, origin=origin).status == 403
    assert ask(address, "/sse?session_id=s_1", cookie=cookie, origin=origin).status == 403
    assert pages_open(address) == 0


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_links_and_pictures_of_other_pages_are_refused(door: str, site: str) -> None:
    for path in ("/?model=resnet8-uint8&data=/dev/zero", "/health", "/favicon.ico"):
        answer = ask(door, path, cookie=cookie_of(door), sec_fetch_site=site)
        assert (answer.status, answer.text) == (
            403,
            "Another page asked for this; open the address that quantscope printed instead.",
        )


def test_every_answer_has_careful_headers(door: str) -> None:
    cookie = cookie_of(door)
    answers = [
        ask(door, "/", cookie=cookie),
        ask(door, "/"),
        ask(door, "/auth/login"),
        ask(door, "/health"),
        ask(door, "/", host=NAME),
        ask(door, "/", origin="null"),
        ask(door, "/nowhere", cookie=cookie),
    ]
    assert [answer.status for answer in answers] == [200, 303, 200, 401, 400, 403, 404]
    for answer in answers:
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


ATTACK = """<!doctype html><title>foreign</title><script>
const door = %(door)r;
const tries = {
  session: () => socket("/ws?session_id=s_evil&model=resnet8-uint8&data=/dev/zero"),
  terminal: () => socket("/terminal/ws", "touch %(mark)s\\n"),
  events: () => new Promise((done) => {
    const path = "/sse?session_id=s_evil&model=resnet8-uint8";
    const source = new EventSource(door + path, {withCredentials: true});
    source.onopen = () => done("open"); source.onerror = () => done("refused");
  }),
  read: () => fetch(door + "/", {credentials: "include"}).then((r) => r.text()),
  frame: () => new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.src = door + "/?model=resnet8-uint8";
    frame.onload = () => done(frame.contentDocument ? "blank" : "refused");
    document.body.append(frame);
  }),
};
function socket(path, text) {
  return new Promise((done) => {
    const ws = new WebSocket(door.replace("http", "ws") + path);
    ws.onopen = () => { if (text) ws.send(text); setTimeout(() => done("open"), 1000); };
    ws.onerror = () => done("refused");
  });
}
window.attack = async () => {
  const found = {};
  for (const [name, go] of Object.entries(tries))
    found[name] = await go().catch(() => "refused");
  return found;
};
</script><body><a id="link" href="%(door)s/?model=resnet8-uint8&data=/dev/zero">a prize</a>
<a id="key" href="%(way_in)s">from a terminal in a page</a>"""


@pytest.fixture(scope="module")
def with_names(browser: Browser) -> Iterator[Browser]:
    """A browser for which a name of somebody else leads here."""
    launched = browser.browser_type.launch(
        executable_path=find_browser.find(),
        args=["--no-sandbox", f"--host-resolver-rules=MAP {NAME} 127.0.0.1"],
    )
    yield launched
    launched.close()


@pytest.fixture
def victim(with_names: Browser, editor: tuple[str, Path], door: str) -> Iterator[BrowserContext]:
    """A browser that was let into both playgrounds, and now meets another page."""
    context = let_in(with_names.new_context())
    yield context
    context.close()


@pytest.mark.parametrize("name", [NAME, "localhost", "127.0.0.1"])
def test_a_page_elsewhere_can_do_nothing(
    victim: BrowserContext, editor: tuple[str, Path], name: str
) -> None:
    """Not from another name, nor from another port of this machine, whose cookies are shared."""
    address, folder = editor
    mark = folder / "was-here"
    html = ATTACK % {"door": address, "mark": mark, "way_in": SERVED[address].way_in}
    with foreign_page(html) as port:
        page = victim.new_page()
        page.goto(f"http://{name}:{port}/")
        found = page.evaluate("attack()")
        assert set(found.values()) == {"refused"}, found
        page.click("#link")
        expect(page.locator("body")).to_contain_text("Another page asked for this")
        page.goto(f"http://{name}:{port}/")
        page.click("#key")  # whoever has the token may come from anywhere
        expect(page).to_have_url(f"{address}/")
        page.close()
    time.sleep(0.5)
    assert not mark.exists()


def test_the_cookie_is_not_sent_to_other_ports(victim: BrowserContext, door: str) -> None:
    """Another user of the machine may listen there, and cookies know no ports."""
    path, seen = urlsplit(door).path, []
    with foreign_page("<title>foreign</title>", seen) as port:
        page = victim.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.evaluate("fetch('/again', {credentials: 'include'})")
        assert seen == [("/", None), ("/again", None)]
        page.goto(f"http://127.0.0.1:{port}{path}/")  # as nobody can guess
        assert seen[-1][1] is not None
        page.close()


def test_without_the_path_there_is_nothing(door: str) -> None:
    bare = f"http://{urlsplit(door).netloc}"
    for path in ("/", "/auth/login", "/manifest.json", "/health"):
        assert ask(bare, path, cookie=cookie_of(door)).status == 404
        answer = ask(bare, path)
        assert (answer.status, answer.text) == (
            401,
            "Open the address that quantscope printed when it was started; it has the token.",
        )


def test_a_ticket_is_for_the_user_who_started_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody can read it in the browser's command line, and may come first."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        scope = {"client": client.getsockname(), "server": server.getsockname()}
        keys = Keys()
        query = {"ticket": [keys.ticket]}
        own = os.getuid()
        if Path("/proc/net/tcp").exists():
            monkeypatch.setattr(os, "getuid", lambda: own + 1)
            assert not keys.fit(query, scope)
            monkeypatch.undo()
        assert keys.fit(query, scope)
        assert not keys.fit(query, scope)
        client.close()


def test_a_name_that_is_pointed_here_shows_nothing(victim: BrowserContext, door: str) -> None:
    page = victim.new_page()
    elsewhere = door.replace("127.0.0.1", NAME)
    way_in = f"{elsewhere}/?access_token={SERVED[door].token}"
    for address in (way_in, f"{elsewhere}/?model=resnet8-uint8"):
        page.goto(address)
        expect(page.locator("body")).to_have_text("Invalid host header")


def test_the_terminal_is_the_owner_s(editor: tuple[str, Path]) -> None:
    """What the others are refused does work, so the tests above can fail."""
    address, folder = editor
    mark = folder / "mine"
    place = urlsplit(address)
    headers = {"Cookie": cookie_of(address), "Origin": f"http://{place.netloc}"}
    with connect(
        address.replace("http", "ws") + TERMINAL,
        origin=None,
        additional_headers=headers,
        proxy=None,
        close_timeout=1,  # a terminal does not answer when it is hung up on
    ) as terminal:
        terminal.send(f"touch {mark}\n")
        end = time.monotonic() + 30
        while not mark.exists() and time.monotonic() < end:
            time.sleep(0.05)
    assert mark.exists()


def test_a_browser_is_sent_in_with_a_ticket_that_works_once(
    tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    """Command lines are read by every user of a machine, so the token does not stand in one."""
    told = tmp_path / "told"
    with serving(browser=True, BROWSER=f"sh -c 'echo $0 > {told}' %s") as served:
        end = time.monotonic() + 30
        while not (told.exists() and told.read_text().endswith("\n")) and time.monotonic() < end:
            time.sleep(0.05)
        address = told.read_text().strip()
        assert served.token not in address
        page = open_page(address)
        expect(page).to_have_url(f"{served.address}/")
        expect(page.get_by_test_id("graph")).to_be_visible()
        page.close()
        late = open_page("about:blank").context.request.get(address)
        assert "Access Token" in late.text()


def test_a_server_without_its_doors_does_not_start() -> None:
    from marimo._server.registry import LIFESPAN_REGISTRY

    async def start() -> None:
        async with LIFESPAN_REGISTRY.get("quantscope")(Starlette()):
            pass

    # In a thread of its own, since playwright has a loop in this one.
    with (
        doors_of_marimo(Keys(), "127.0.0.1", ready=lambda: None),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(RuntimeError, match="cannot be guarded"),
    ):
        pool.submit(asyncio.run, start()).result()
    assert "quantscope" not in LIFESPAN_REGISTRY.names()


def test_names_and_addresses_follow_from_what_it_is_bound_to() -> None:
    assert addresses_of("::1") == addresses_of("[::1]") == ["[::1]"]
    assert names_of("10.1.2.3") == ["127.0.0.1", "localhost", "[::1]", "10.1.2.3"]
    assert addresses_of("0.0.0.0")[0] == "127.0.0.1"
    assert set(addresses_of("0.0.0.0")) <= set(names_of("0.0.0.0"))


def test_other_machines_are_warned_of_in_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving("--host", "0.0.0.0", log=log) as served:
        assert ask(served.address, "/health").status == 401
    assert "Other machines can reach it; who has the token can" in log.read_text()
