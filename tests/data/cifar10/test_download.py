import hashlib
import socket

import numpy as np
import pytest
from http_server import Site, serve

from quantscope.data.cifar10.download import DownloadFailedError, download
from quantscope.data.cifar10.facts import Archive
from quantscope.errors import StoppedError

CONTENT = np.random.default_rng(0).bytes(1_000_000)


@pytest.fixture
def part(tmp_path):
    return tmp_path / "archive.part"


def _archive(site: Site, content: bytes = CONTENT, **options) -> Archive:
    return Archive(site.url, hashlib.md5(content).hexdigest(), **options)


def test_progress_ends_at_the_whole_size(part):
    seen = []
    with serve(Site(CONTENT)) as site:
        download(_archive(site), part, progress=lambda *step: seen.append(step))
    assert part.read_bytes() == CONTENT
    assert seen[-1] == ("Downloading CIFAR-10", 1_000_000, 1_000_000)


def test_a_length_that_is_not_told_is_no_hindrance(part):
    with serve(Site(CONTENT, says_length=False)) as site:
        assert download(_archive(site), part).read_bytes() == CONTENT


def test_what_is_there_is_not_downloaded_again(part):
    part.write_bytes(CONTENT[:400_000])
    with serve(Site(CONTENT)) as site:
        download(_archive(site), part)
    assert part.read_bytes() == CONTENT
    assert site.asked == ["bytes=400000-"]


def test_a_complete_part_is_only_checked(part):
    part.write_bytes(CONTENT)
    with serve(Site(CONTENT)) as site:
        download(_archive(site), part)
    assert part.read_bytes() == CONTENT
    assert site.asked == ["bytes=1000000-"]


def test_a_server_without_ranges_is_asked_from_the_start(part):
    part.write_bytes(CONTENT[:400_000])
    with serve(Site(CONTENT, ranges=False)) as site:
        download(_archive(site), part)
    assert part.read_bytes() == CONTENT


def test_a_cut_connection_is_resumed_as_long_as_something_comes(part):
    with serve(Site(CONTENT, cut_after=[300_000, 1, 500_000])) as site:
        download(_archive(site), part)
    assert part.read_bytes() == CONTENT
    assert site.asked == [None, "bytes=300000-", "bytes=300001-", "bytes=800001-"]


def test_a_server_that_keeps_cutting_is_given_up_and_what_came_is_kept(part):
    with (
        serve(Site(CONTENT, cut_after=[300_000, 0])) as site,
        pytest.raises(DownloadFailedError) as caught,
    ):
        download(_archive(site), part)
    assert str(caught.value) == f"{site.url} could not be downloaded (the connection was cut)"
    assert part.read_bytes() == CONTENT[:300_000]


def test_cutting_without_ranges_ends(part):
    site = Site(CONTENT, ranges=False, cut_after=[300_000] * 50)
    with serve(site), pytest.raises(DownloadFailedError, match="could not be downloaded"):
        download(_archive(site), part)
    assert len(site.asked) == 2


def test_a_corrupted_download_is_removed(part):
    damaged = CONTENT[:500_000] + b"?" + CONTENT[500_001:]
    md5 = hashlib.md5(CONTENT).hexdigest()
    with serve(Site(damaged)) as site, pytest.raises(DownloadFailedError) as caught:
        download(_archive(site), part)
    assert str(caught.value) == (
        f"{site.url} arrived damaged (its md5 is not {md5}) and was removed"
    )
    assert not part.exists()
    assert site.asked == [None]


@pytest.mark.parametrize("old", [b"?" * 400_000, b"?" * 1_000_000, b"?" * 1_200_000])
def test_a_part_of_something_else_is_dropped_and_the_download_begun_anew(part, old):
    part.write_bytes(old)
    with serve(Site(CONTENT)) as site:
        download(_archive(site), part)
    assert part.read_bytes() == CONTENT
    assert site.asked == [f"bytes={len(old)}-", None]


def test_stopping_keeps_what_came(part):
    def stop(what, done, total):
        if done > 200_000:
            raise StoppedError("enough")

    with serve(Site(CONTENT)) as site:
        with pytest.raises(StoppedError):
            download(_archive(site), part, progress=stop)
        kept = part.stat().st_size
        assert 200_000 < kept < 1_000_000
        assert part.read_bytes() == CONTENT[:kept]
        download(_archive(site), part)
    assert part.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "reason"), [(404, "404 Not Found"), (503, "503 Service Unavailable")]
)
def test_refusals_of_the_server_are_told(part, status, reason):
    with serve(Site(CONTENT, status=status)) as site, pytest.raises(DownloadFailedError) as caught:
        download(_archive(site), part)
    assert str(caught.value) == f"{site.url} could not be downloaded (the server answered {reason})"


def test_a_server_that_is_not_there(part):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        with pytest.raises(DownloadFailedError) as caught:
            download(Archive(url, "0"), part)
    assert str(caught.value) == f"{url} could not be downloaded (Connection refused)"


def test_a_server_that_says_nothing_is_given_up(part):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/x"
        with pytest.raises(DownloadFailedError) as caught:
            download(Archive(url, "0"), part, timeout_s=0.2)
    assert str(caught.value) == f"{url} could not be downloaded (timed out)"


def test_more_than_the_most_is_not_stored(part):
    with serve(Site(CONTENT)) as site, pytest.raises(DownloadFailedError) as caught:
        download(_archive(site, max_bytes=500_000), part)
    assert str(caught.value) == f"{site.url} is far larger than CIFAR-10"
    assert part.stat().st_size == 0
