"""References to images: the meaning of each spelling, and the refused ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.errors import UsageError
from sandwright.registry.reference import Reference, is_loopback, parse_reference

DIGEST = "sha256:" + "a1" * 32
SHA512 = "sha512:" + "b2" * 64

MEANINGS: dict[str, tuple[str, str, str | None, str | None]] = {
    "alpine": ("docker.io", "library/alpine", "latest", None),
    "alpine:3.22": ("docker.io", "library/alpine", "3.22", None),
    "docker.io/alpine": ("docker.io", "library/alpine", "latest", None),
    "index.docker.io/library/alpine:3": ("docker.io", "library/alpine", "3", None),
    "registry-1.docker.io/library/alpine": ("docker.io", "library/alpine", "latest", None),
    "team/app": ("docker.io", "team/app", "latest", None),
    "localhost/app": ("localhost", "app", "latest", None),
    "localhost:5000/app:1": ("localhost:5000", "app", "1", None),
    "GHCR.io/team/app": ("ghcr.io", "team/app", "latest", None),
    "[::1]:5000/a/b:x": ("[::1]:5000", "a/b", "x", None),
    "127.0.0.1:5000/a__b/c-d/e.f": ("127.0.0.1:5000", "a__b/c-d/e.f", "latest", None),
    f"ghcr.io/a@{DIGEST}": ("ghcr.io", "a", None, DIGEST),
    f"ghcr.io/a:1@{DIGEST}": ("ghcr.io", "a", "1", DIGEST),
    f"a@{SHA512}": ("docker.io", "library/a", None, SHA512),
    "a:" + "t" * 128: ("docker.io", "library/a", "t" * 128, None),
    "a:_.-": ("docker.io", "library/a", "_.-", None),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_what_a_reference_means(text: str) -> None:
    assert parse_reference(text) == Reference(*MEANINGS[text])


REFUSED = {
    "nothing": "",
    "a space": "a b",
    "a scheme": "https://ghcr.io/a",
    "upper case where a host could be": "Team/app",
    "upper case": "ghcr.io/Team/app",
    "two slashes": "ghcr.io//a",
    "a slash at the end": "ghcr.io/a/",
    "a path that climbs": "ghcr.io/../a",
    "a name that begins with a dash": "ghcr.io/-a",
    "a name that ends with a dot": "ghcr.io/a.",
    "three underscores": "ghcr.io/a___b",
    "two dots": "ghcr.io/a..b",
    "a host and nothing": "ghcr.io/",
    "no tag after the colon": "a:",
    "a tag that begins with a dot": "a:.x",
    "a tag with a slash": "a:b/c",
    "a tag that is too long": "a:" + "t" * 129,
    "a tag of two lines": "a:b\nc",
    "no digest after the at": "a@",
    "a digest of another kind": "a@md5:" + "a" * 32,
    "a short digest": "a@sha256:abc",
    "a digest in upper case": "a@sha256:" + "A1" * 32,
    "two digests": f"a@{DIGEST}@{DIGEST}",
    "a port that is none": "localhost:0/a",
    "a port that is too large": "localhost:65536/a",
    "a port in words": "localhost:http/a",
    "a name in the host": "user@ghcr.io/a",
    "an underscore in the host": "a_b.example/a",
    "an address that is none": "[::g]:5000/a",
    "a control character": "ghcr.io/a\x1b[2J",
    "a NUL": "ghcr.io/a\0",
    "a name that is too long": "ghcr.io/" + "a" * 250,
    "digits that are not ASCII": "localhost:٥٠٠٠/a",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", MEANINGS)
def test_it_is_written_as_it_is_read(text: str) -> None:
    once = parse_reference(text)
    assert parse_reference(str(once)) == once


@given(st.text(alphabet="aA1._-/:@[]% \n", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_reference(text)
    except UsageError:
        return
    assert parse_reference(str(found)) == found
    assert ".." not in found.repository.split("/")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("registry.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("localhost.example.com", False),
        ("10.0.0.1", False),
        ("0.0.0.0", True),
        ("127.1", True),
        ("0x7f000001", True),
        ("10.1", False),
        ("1\u0662", False),
        ("127.0.0.1.example.com", False),
        ("::ffff:127.0.0.1", True),
    ],
)
def test_what_is_this_machine(name: str, expected: bool) -> None:
    assert is_loopback(name) is expected
