"""The leaves of a policy: the meaning of sizes, times and names, and the messages for invalid ones.

Tests of policy/field_checks.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from sandwright.policy import values
from sandwright.policy.values import ShimCommand


def exactly(message: str) -> str:
    """The pattern that only this message matches."""
    return rf"\A{re.escape(message)}\Z"


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1B", 1),
        ("2GiB", 2 * 1024**3),
        ("512MiB", 512 * 1024**2),
        ("1.5GiB", 3 * 512 * 1024**2),
        ("1.5GB", 1_500_000_000),
        ("10kB", 10_000),
        ("4 KiB", 4096),
        ("1TiB", 1024**4),
    ],
)
def test_sizes(text: str, amount: int) -> None:
    assert values.size(text) == amount


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800), ("1d1h1m1s", 90061), ("90m", 5400)],
)
def test_durations(text: str, seconds: int) -> None:
    assert values.duration(text) == seconds


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (values.size, "2", "must be a number with a unit, like 2GiB or 512MiB, not '2'"),
        (values.size, "2g", "must be a number with a unit, like 2GiB or 512MiB, not '2g'; did you mean 2GiB?"),
        (values.size, "512Mi", "must be a number with a unit, like 2GiB or 512MiB, not '512Mi'; did you mean 512MiB?"),
        (values.size, "lots", "must be a number with a unit, like 2GiB or 512MiB, not 'lots'"),
        (values.size, "-1GiB", "must be a number with a unit, like 2GiB or 512MiB, not '-1GiB'"),
        (values.size, "1e3GiB", "must be a number with a unit, like 2GiB or 512MiB, not '1e3GiB'"),
        (values.size, "0.5B", "0.5B is not a whole number of bytes"),
        (values.size, "0GiB", "must be at least 1 byte and less than 8 EiB"),
        (values.size, "8388608TiB", "must be at least 1 byte and less than 8 EiB"),
        (values.duration, "30", "must be a time like 30m, 1h30m or 90s, not '30'"),
        (values.duration, "", "must be a time like 30m, 1h30m or 90s, not ''"),
        (values.duration, "1m1h", "must be a time like 30m, 1h30m or 90s, not '1m1h'"),
        (values.duration, "1.5h", "must be a time like 30m, 1h30m or 90s, not '1.5h'"),
        (values.duration, "9" * 6000 + "s", f"must be a time like 30m, 1h30m or 90s, not '{'9' * 57}...'"),
        (values.duration, "999999999999d", "must be between 1s and 366d"),
        (values.duration, "0s", "must be between 1s and 366d"),
        (values.duration, "400d", "must be between 1s and 366d"),
        (values.variable, "1A", "'1A' cannot be the name of a variable: letters, digits and _, no digit first"),
        (values.variable, "A=B", "'A=B' cannot be the name of a variable: letters, digits and _, no digit first"),
        (values.variable, "", "'' cannot be the name of a variable: letters, digits and _, no digit first"),
        (values.variable_pattern, "*", "would pass every secret in the environment; list the variables"),
        (values.variable_pattern, "L*C", "'L*C' cannot be the name of a variable: letters, digits and _, no digit first"),
        (values.variable_pattern, "LD_PRELOAD", "LD_PRELOAD makes programs load code and never comes from the host; use environment.set"),
        (values.variable_pattern, "DYLD_INSERT_LIBRARIES", "DYLD_INSERT_LIBRARIES makes programs load code and never comes from the host; use environment.set"),
        (values.program, "../gh", "'../gh' cannot be the name of a shim: letters, digits and ._+- only"),
        (values.program, "-gh", "'-gh' cannot be the name of a shim: letters, digits and ._+- only"),
        (values.program, "", "'' cannot be the name of a shim: letters, digits and ._+- only"),
        (values.image, "-v", "'-v' is no reference of an image: [registry/]name[:tag][@sha256:digest]"),
        (values.image, "-v/etc", "'-v/etc' is no reference of an image: [registry/]name[:tag][@sha256:digest]"),
        (values.image, "../x", "'../x' is no reference of an image: [registry/]name[:tag][@sha256:digest]"),
        (values.image, "Debian", "'Debian' is no reference of an image: [registry/]name[:tag][@sha256:digest]"),
        (values.image, "a b", "'a b' is no reference of an image: [registry/]name[:tag][@sha256:digest]"),
        (values.image, "docker-archive:evil.tar", "'docker-archive:evil.tar' is no reference of an image: Podman takes docker-archive: for files"),
        (values.image, "oci:5000/evil", "'oci:5000/evil' is no reference of an image: Podman takes oci: for files"),
        (values.reason, "  ", "must say why"),
        (values.reason, "a\nb", "must be one line without control characters"),
        (values.command, "", "must hold at least one word"),
        (values.command, "pr * list", "'pr * list': * stands only as the last word, for any further ones"),
        (values.command, "pr-*", "'pr-*': * stands only as the last word, for any further ones"),
        (values.command, "a\nb", "must be one line without control characters"),
    ],
)  # fmt: skip
def test_refused(parse: Callable[[str], object], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "number", "message"),
    [
        (values.port, 0, "must be a port, 1 to 65535"),
        (values.port, 65536, "must be a port, 1 to 65535"),
        (values.count, 0, "must be between 1 and 2147483647"),
        (values.cpus, 0, "must be between 0.001 and 4096"),
        (values.cpus, float("nan"), "must be between 0.001 and 4096"),
        (values.cpus, float("inf"), "must be between 0.001 and 4096"),
        (values.cpus, 0.0015, "must be a multiple of 0.001"),
    ],
)
def test_refused_numbers(parse: Callable[[float], object], number: float, message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        parse(number)


def test_a_refused_secret_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="must name a variable") as refused:
        values.secret_reference("ghp_0123456789")
    assert "ghp" not in str(refused.value)
    assert values.secret_reference("${SANDBOX_GH_TOKEN}") == "SANDBOX_GH_TOKEN"


@pytest.mark.parametrize(
    "text",
    ["debian", "debian:12", "registry.example.org:5000/team/debian@sha256:" + "0" * 64, "a/b-c_d.e:v1"],
)
def test_images(text: str) -> None:
    assert values.image(text) == text


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("auth status", ShimCommand(("auth", "status"), more=False)),
        ("pr *", ShimCommand(("pr",), more=True)),
        ("*", ShimCommand((), more=True)),
        ("  api   repos/x ", ShimCommand(("api", "repos/x"), more=False)),
    ],
)
def test_commands(text: str, command: ShimCommand) -> None:
    assert values.command(text) == command


@pytest.mark.parametrize(
    ("limit", "given", "covers"),
    [
        ("pr *", "pr list", True),
        ("pr *", "pr *", True),
        ("pr *", "pr", True),
        ("pr *", "prune", False),
        ("*", "pr *", True),
        ("pr list", "pr list", True),
        ("pr list", "pr *", False),
        ("pr list *", "pr *", False),
        ("pr *", "pr list 5 *", True),
        ("pr *", "pr list --repo acme/secret", False),
        ("*", "repo view acme/secret", False),
        ("push *", "push https://evil.example/x.git *", False),
        ("push --force *", "push --force origin", True),
    ],
)
def test_commands_cover(limit: str, given: str, covers: bool) -> None:
    assert values.command(limit).covers(values.command(given)) is covers


@pytest.mark.parametrize(
    ("name", "loads"),
    [("LD_AUDIT", True), ("DYLD_X", True), ("NODE_OPTIONS", True), ("PATH", False), ("LDX", False)],
)
def test_what_loads_code(name: str, loads: bool) -> None:
    assert values.loads_code(name) is loads
