"""Canonical paths: links, firmlinks, equivalent spellings of a file, and the limits of that.

Tests of policy/paths.py.
"""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.paths import ancestors, canonical, depth, follow, is_inside, same_name


def exactly(message: str) -> str:
    """The pattern that only this message matches."""
    return rf"\A{re.escape(message)}\Z"


def _facts(links: dict[str, str], *, os: str = "linux") -> HostFacts:
    entries = {path: HostEntry("symlink", target) for path, target in links.items()}
    return HostFacts(os=os, home="/home/u", project="/home/u/p", entries=entries)  # type: ignore[arg-type]


LINKS = {
    "/bin": "usr/bin",
    "/var/run": "/run",
    "/home/u/p/data": "../../../srv/data",
    "/srv/data/back": "..",
    "/srv/data/up": "../other/./x//y",
    "/one": "two",
    "/two": "three",
    "/loop": "loop",
    "/ping": "pong",
    "/pong": "ping",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "/"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("/bin/env", "/usr/bin/env"),
        ("/bin", "/usr/bin"),
        ("/var/run/docker.sock", "/run/docker.sock"),
        ("/var/runner", "/var/runner"),
        ("/home/u/p/data/x", "/srv/data/x"),
        ("/home/u/p/data/back/x", "/srv/x"),
        ("/srv/data/up/z", "/srv/other/x/y/z"),
        ("/one/x", "/three/x"),
        ("/not/there/yet", "/not/there/yet"),
        ("/home/u/p/data/new/file", "/srv/data/new/file"),
        ("/bin/../lib", "/usr/lib"),
        ("/..", "/"),
        ("//bin/./env/", "/usr/bin/env"),
    ],
)
def test_links_of_linux(path: str, expected: str) -> None:
    assert canonical(path, _facts(LINKS)) == expected


@pytest.mark.parametrize("path", ["/loop", "/loop/x", "/ping/x"])
def test_loops_end(path: str) -> None:
    with pytest.raises(ValueError, match=exactly(f"{path} leads through more than 40 links")):
        canonical(path, _facts(LINKS))


class _Counting(dict[str, HostEntry]):
    """Entries that count their lookups."""

    lookups = 0

    def get(self, path: str, default: object = None) -> HostEntry | None:  # type: ignore[override]  # noqa: ARG002
        self.lookups += 1
        return super().get(path)


def test_a_directory_is_followed_once_for_all_paths_in_it() -> None:
    entries = _Counting({"/a/b": HostEntry("symlink", "/c")})
    facts = HostFacts(os="linux", home="/home/u", project="/home/u/p", entries=entries)
    for name in 2 * [*range(100)]:
        assert canonical(f"/a/b/d/{name}", facts) == f"/c/d/{name}"
    assert entries.lookups == 4 + 100  # /a, the link, /c and /c/d; then each name


def test_the_way_is_told() -> None:
    assert follow("/one/x", _facts(LINKS)) == ("/three/x", (("/one", "two"), ("/two", "three")))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/tmp/x", "/private/tmp/x"),
        ("/var/folders/a", "/private/var/folders/a"),
        ("/etc", "/private/etc"),
        ("/private/tmp/x", "/private/tmp/x"),
        ("/System/Volumes/Data/Users/u/x", "/Users/u/x"),
        ("/System/Volumes/Data/private/tmp/x", "/private/tmp/x"),
        ("/System/Volumes/Data/System/Library/Caches/x", "/System/Library/Caches/x"),
        ("/System/Volumes/Data/usr/local/bin", "/usr/local/bin"),
        ("/System/Volumes/Data/.Spotlight", "/System/Volumes/Data/.Spotlight"),
        ("/System/Volumes/Data/Usersx", "/System/Volumes/Data/Usersx"),
        ("/System/Volumes/Data", "/System/Volumes/Data"),
        ("/home/u", "/System/Volumes/Data/home/u"),
        ("/tmp/../etc/hosts", "/private/etc/hosts"),
    ],
)
def test_links_and_firmlinks_of_macos(path: str, expected: str) -> None:
    assert canonical(path, _facts({}, os="darwin")) == expected
    assert canonical(expected, _facts({}, os="darwin")) == expected


def test_linux_has_no_firmlinks() -> None:
    assert canonical("/System/Volumes/Data/Users/u", _facts({})) == "/System/Volumes/Data/Users/u"
    assert canonical("/tmp/x", _facts({})) == "/tmp/x"


def test_what_is_recorded_wins_over_what_every_mac_has() -> None:
    facts = HostFacts(
        os="darwin", home="/Users/u", project="/Users/u/p", entries={"/tmp": HostEntry("directory")}
    )
    assert canonical("/tmp/x", facts) == "/tmp/x"


@pytest.mark.parametrize(
    ("path", "directory", "inside"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/ab", "/a", False),
        ("/", "/", True),
        ("/a", "/", True),
        ("/", "/a", False),
    ],
)
def test_inside(path: str, directory: str, inside: bool) -> None:
    assert is_inside(path, directory) is inside


def test_ancestors_and_depth() -> None:
    assert ancestors("/a/b/c") == ("/a/b", "/a", "/")
    assert ancestors("/") == ()
    assert [depth(path) for path in ("/", "/a", "/a/b")] == [0, 1, 2]


@pytest.mark.parametrize(
    ("os", "case_sensitive", "a", "b", "same"),
    [
        ("linux", True, "A", "a", False),
        ("linux", True, "caf\u00e9", "cafe\u0301", False),
        ("darwin", True, "caf\u00e9", "cafe\u0301", True),
        ("darwin", True, "A", "a", False),
        ("darwin", False, "A", "a", True),
        ("darwin", False, "CAF\u00c9", "cafe\u0301", True),
        ("darwin", False, "a", "b", False),
    ],
)
def test_names_of_the_same_file(os: str, case_sensitive: bool, a: str, b: str, same: bool) -> None:
    facts = HostFacts(os=os, home="/h", project="/h/p", case_sensitive=case_sensitive)  # type: ignore[arg-type]
    key = same_name(facts)
    assert (key(a) == key(b)) is same


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
TARGETS = st.lists(NAMES | st.just(".."), min_size=1, max_size=3).map("/".join) | PATHS


@settings(deadline=None)
@given(st.dictionaries(PATHS, TARGETS, max_size=6), PATHS)
def test_canonicalising_is_idempotent(links: dict[str, str], path: str) -> None:
    facts = _facts(links)
    try:
        once, way = follow(path, facts)
    except ValueError:
        return
    assert canonical(once, facts) == once
    assert once == posixpath.normpath(once)
    assert all(links[where] == text for where, text in way)
