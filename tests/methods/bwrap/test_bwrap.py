"""Bubblewrap's arguments: golden, and no value of a policy adds an argument.

Tests of methods/bwrap/render.py.
Tests of render/bubblewrap.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.api import Policy
from sandwright.methods.bwrap.render import render_bwrap
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from support.goldens import case_policy
from support.thorough import examples

FLAGS = {
    "--unshare-user": 0, "--unshare-pid": 0, "--unshare-ipc": 0, "--unshare-uts": 0, "--unshare-net": 0,
    "--unshare-cgroup-try": 0, "--die-with-parent": 0, "--new-session": 0, "--hostname": 1, "--seccomp": 1,
    "--perms": 1, "--dir": 1, "--cap-drop": 1, "--cap-add": 1, "--uid": 1, "--gid": 1,
    "--ro-bind": 2, "--bind": 2,
    "--ro-bind-try": 2, "--dev": 1, "--proc": 1, "--tmpfs": 1, "--symlink": 2, "--remount-ro": 1,
    "--chdir": 1, "--setenv": 2, "--file": 2,
}  # fmt: skip
"""The options in use, with the number of values that each takes (bwrap(1))."""

Option = tuple[str, ...]


def parsed(content: bytes) -> list[Option]:
    """The arguments that bwrap reads from the file."""
    assert content.endswith(b"\0")
    words = [word.decode("utf-8", "surrogateescape") for word in content[:-1].split(b"\0")]
    options: list[Option] = []
    while words:
        count = FLAGS[words[0]] + 1
        assert len(words) >= count
        options.append(tuple(words[:count]))
        del words[:count]
    return options


def _args(policy: ResolvedPolicy) -> list[Option]:
    return parsed(next(each.content for each in render_bwrap(policy) if each.name == "args"))


def test_the_arguments_of_a_case() -> None:
    project = "/home/ada/project"
    args = _args(case_policy("strict"))
    placeholders = [each[-1] for each in args if each[-1].startswith(f"{project}/work/")]
    assert f"{project}/work/.git" in placeholders
    assert [each for each in args if each[-1] not in placeholders and each[0] != "--perms"] == [
        ("--unshare-user",), ("--unshare-pid",), ("--unshare-ipc",), ("--unshare-uts",),
        ("--unshare-cgroup-try",), ("--unshare-net",), ("--die-with-parent",), ("--new-session",),
        ("--hostname", "sandbox"), ("--seccomp", "5"), ("--cap-drop", "ALL"),
        ("--tmpfs", "/"),
        *STRICT_ROOT,
        ("--bind", f"{project}/work", f"{project}/work"),
        ("--ro-bind", "/sys/devices/system/cpu", "/sys/devices/system/cpu"),
        ("--remount-ro", "/"),
        ("--chdir", project),
        ("--setenv", "SANDWRIGHT_INSIDE", "1"),
    ]  # fmt: skip


STRICT_ROOT: list[Option] = [
    ("--symlink", "usr/bin", "/bin"), ("--dev", "/dev"), ("--symlink", "usr/lib", "/lib"),
    ("--symlink", "usr/lib64", "/lib64"), ("--proc", "/proc"),
    ("--ro-bind-try", "/proc/acpi", "/proc/acpi"), ("--ro-bind-try", "/proc/bus", "/proc/bus"),
    ("--ro-bind-try", "/proc/fs", "/proc/fs"), ("--ro-bind-try", "/proc/irq", "/proc/irq"),
    ("--ro-bind-try", "/proc/scsi", "/proc/scsi"), ("--ro-bind-try", "/proc/sys", "/proc/sys"),
    ("--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger"),
    ("--symlink", "usr/sbin", "/sbin"),
    ("--tmpfs", "/tmp"), ("--ro-bind", "/usr", "/usr"),
    ("--ro-bind", "/etc/alternatives", "/etc/alternatives"),
    ("--ro-bind", "/etc/group", "/etc/group"), ("--ro-bind", "/etc/hosts", "/etc/hosts"),
    ("--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache"),
    ("--ro-bind", "/etc/ld.so.conf", "/etc/ld.so.conf"),
    ("--ro-bind", "/etc/ld.so.conf.d", "/etc/ld.so.conf.d"),
    ("--symlink", "/usr/share/zoneinfo/UTC", "/etc/localtime"),
    ("--ro-bind", "/etc/nsswitch.conf", "/etc/nsswitch.conf"), ("--ro-bind", "/etc/passwd", "/etc/passwd"),
    ("--ro-bind", "/etc/ssl/certs", "/etc/ssl/certs"),
]  # fmt: skip


@pytest.mark.needs("bwrap")
def test_the_settings_of_the_kernel_are_not_root_s(tmp_path: Path) -> None:
    """bwrap maps root to root, and the kernel checks only that: core_pattern would run programs outside."""
    policy = Policy.from_text('{"schema": 1, "method": "bwrap"}').resolve()
    for each in render(policy, "bwrap").artifacts:
        (tmp_path / each.name).write_bytes(each.content)
        (tmp_path / each.name).chmod(each.mode)
    script = "echo core >/proc/sys/kernel/core_pattern || echo denied; echo x >/proc/self/comm && echo works"
    before = Path("/proc/sys/kernel/core_pattern").read_bytes()
    result = process.run(str(tmp_path / "launch"), "/bin/sh", "-c", script, check=False, timeout=20)
    assert Path("/proc/sys/kernel/core_pattern").read_bytes() == before
    assert result.text.splitlines() == ["denied", "works"]
    assert "Read-only file system" in result.stderr


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF, exclude_characters="\0/*?"),
    min_size=1,
    max_size=12,
)
WORDS = NAMES.filter(lambda name: name not in (".", ".."))
VALUES = st.text(
    st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF, exclude_characters="\0$"), max_size=12
)
OPTIONS = st.sampled_from(["--share-net", "--bind", "--", "-v", "--dev-bind / /", "--args", "\n--bind\n/\n/"])


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(WORDS | OPTIONS.filter(lambda word: "/" not in word), max_size=4, unique=True), VALUES | OPTIONS
)
def test_no_value_adds_an_argument(names: list[str], value: str) -> None:
    project = "/home/u/p"
    paths = [f"{project}/{name}" for name in names]
    policy = _policy(paths, value)
    options = _args(policy)
    binds = {option for option in options if option[0] in ("--bind", "--ro-bind", "--dev-bind")}
    assert binds == {("--ro-bind", "/", "/"), ("--bind", project, project)} | {
        ("--ro-bind", path, path) for path in paths
    }
    assert [option for option in options if option[0] == "--setenv"] == [
        ("--setenv", "SANDWRIGHT_INSIDE", "1"),
        ("--setenv", "VALUE", value),
    ]
    assert ("--unshare-net",) in options


def _policy(paths: list[str], value: str) -> ResolvedPolicy:
    escaped = [path.replace("$", "$$") for path in paths]
    data = {
        "extends": [],
        "method": "bwrap",
        "filesystem": {"read": ["/"], "write": ["$PROJECT"], "readonly": escaped},
        "environment": {"set": {"VALUE": value}},
    }
    directories = ("/", "/home", "/home/u", "/home/u/p", *paths)
    facts = HostFacts(
        os="linux",
        home="/home/u",
        project="/home/u/p",
        entries=dict.fromkeys(directories, HostEntry("directory")),
    )
    return Policy.from_text(json.dumps(data)).resolve(facts)


@pytest.mark.parametrize(
    ("cwd", "write", "start"),
    [
        ("/tmp/work", "/tmp/work", "/tmp/work"),
        ("/tmp/work", "/tmp/work/deep", "/tmp/work"),
        ("/tmp/work", "/home/ada/p", "/"),
        ("/tmp", "/home/ada/p", "/tmp"),
        ("/home/ada/p", "/home/ada/p", "/home/ada/p"),
    ],
)
def test_it_starts_where_there_is_a_directory(cwd: str, write: str, start: str) -> None:
    """bwrap refuses to start in a missing directory: one below a private /tmp that no rule lists."""
    text = f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [{write}]}}\n"
    entries = {each: HostEntry("directory") for each in ("/tmp", cwd, write)}
    facts = HostFacts(os="linux", home="/home/ada", project="/home/ada/p", cwd=cwd, entries=entries)
    assert ("--chdir", start) in _args(Policy.from_text(text).resolve(facts))
