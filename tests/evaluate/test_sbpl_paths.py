"""Paths as the kernel resolves them: links, firmlinks, dots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.errors import UsageError
from sandwright.evaluate.sbpl.paths import Links

LINKS = {
    "/private/tmp/linkdir/to_var": "/private/var/tmp",
    "/private/tmp/relative": "../etc",
    "/Users/u/chain": "/private/tmp/linkdir/to_var",
    "/usr/local/bin/python": "../Cellar/python3",
}

FOLLOWED = {
    "plain": ("/Users/u/x", "/Users/u/x", ()),
    "root": ("/", "/", ()),
    "tmp": ("/tmp/x", "/private/tmp/x", ("/tmp",)),
    "tmp itself": ("/tmp", "/private/tmp", ("/tmp",)),
    "var": ("/var/folders/a", "/private/var/folders/a", ("/var",)),
    "etc": ("/etc/hosts", "/private/etc/hosts", ("/etc",)),
    "home is on the data volume": ("/home/u", "/System/Volumes/Data/home/u", ("/home",)),
    "what only begins so": ("/tmpx/y", "/tmpx/y", ()),
    "private is no link": ("/private/tmp/x", "/private/tmp/x", ()),
    "firmlink": ("/System/Volumes/Data/private/tmp/x", "/private/tmp/x", ()),
    "firmlink of users": ("/System/Volumes/Data/Users/u", "/Users/u", ()),
    "firmlink itself": ("/System/Volumes/Data/Library", "/Library", ()),
    "firmlink of two parts": ("/System/Volumes/Data/usr/local/bin/x", "/usr/local/bin/x", ()),
    "no firmlink": ("/System/Volumes/Data/usr/bin", "/System/Volumes/Data/usr/bin", ()),
    "what begins like a firmlink": ("/System/Volumes/Data/Usersx", "/System/Volumes/Data/Usersx", ()),
    "the data volume": ("/System/Volumes/Data", "/System/Volumes/Data", ()),
    "slashes": ("//Users///u//", "/Users/u", ()),
    "dots": ("/Users/./u/../v/.", "/Users/v", ()),
    "dots above the root": ("/../../Users", "/Users", ()),
    "dots after a link are physical": ("/tmp/../x", "/private/x", ("/tmp",)),
    "names with dots": ("/Users/.u/..v/...", "/Users/.u/..v/...", ()),
    "a user's link": (
        "/private/tmp/linkdir/to_var/f",
        "/private/var/tmp/f",
        ("/private/tmp/linkdir/to_var",),
    ),
    "two links": ("/tmp/linkdir/to_var/f", "/private/var/tmp/f", ("/tmp", "/private/tmp/linkdir/to_var")),
    "a relative link": ("/private/tmp/relative/hosts", "/private/etc/hosts", ("/private/tmp/relative",)),
    "a chain": ("/Users/u/chain/f", "/private/var/tmp/f", ("/Users/u/chain", "/private/tmp/linkdir/to_var")),
    "a link on a firmlinked path": (
        "/System/Volumes/Data/private/tmp/linkdir/to_var/f",
        "/private/var/tmp/f",
        ("/private/tmp/linkdir/to_var",),
    ),
    "out of the workspace": ("/private/var/f/ws/../../../tmp/x", "/private/tmp/x", ()),
    "out of the workspace and back through a link": (
        "/private/var/f/ws/../../../../tmp/x",
        "/private/tmp/x",
        ("/tmp",),
    ),
}


@pytest.mark.parametrize(("path", "resolved", "links"), FOLLOWED.values(), ids=FOLLOWED)
def test_follows(path: str, resolved: str, links: tuple[str, ...]) -> None:
    assert Links(LINKS).resolve(path, follow=True) == (resolved, links)


LAST_NOT_FOLLOWED = {
    "link": ("/tmp", "/tmp", ()),
    "link in a link": ("/tmp/relative", "/private/tmp/relative", ("/tmp",)),
    "slash at the end": ("/tmp/", "/private/tmp", ("/tmp",)),
    "dot at the end": ("/tmp/.", "/private/tmp", ("/tmp",)),
    "links on the way are": ("/etc/hosts", "/private/etc/hosts", ("/etc",)),
}


@pytest.mark.parametrize(("path", "resolved", "links"), LAST_NOT_FOLLOWED.values(), ids=LAST_NOT_FOLLOWED)
def test_stops_at_a_link_that_is_asked_for_itself(path: str, resolved: str, links: tuple[str, ...]) -> None:
    assert Links(LINKS).resolve(path, follow=False) == (resolved, links)


def test_a_link_may_be_given_by_any_spelling() -> None:
    links = Links({"/tmp/l": "/Users/u", "/System/Volumes/Data/Users/u/m": "/opt"})
    assert links.resolve("/private/tmp/l/m/x", follow=True).path == "/opt/x"


def test_links_in_a_circle_are_refused() -> None:
    links = Links({"/a": "/b", "/b": "/a"})
    with pytest.raises(UsageError, match="/a/x: too many symbolic links, or a circle of them"):
        links.resolve("/a/x", follow=True)


@pytest.mark.parametrize(("link", "target"), [("rel", "/x"), ("/", "/x"), ("/a", "")])
def test_refuses_links_that_are_none(link: str, target: str) -> None:
    with pytest.raises(UsageError, match="a symbolic link needs an absolute path and a target"):
        Links({link: target})


paths = st.lists(
    st.sampled_from(
        ["tmp", "var", "etc", "private", "Users", "u", ".", "..", "", "System", "Volumes", "Data", "a.b"]
    ),
    max_size=8,
).map(lambda parts: "/" + "/".join(parts))


@given(paths)
def test_what_is_resolved_is_canonical(path: str) -> None:
    links = Links()
    resolved = links.resolve(path, follow=True)
    assert links.resolve(resolved.path, follow=True) == (resolved.path, ())
    assert resolved.path == "/" or not (set(resolved.path[1:].split("/")) & {"", ".", ".."})


@given(paths)
def test_a_plain_path_resolves_to_itself(path: str) -> None:
    links = Links()
    if links.is_plain(path):
        assert links.resolve(path + "/", follow=True).path == path
