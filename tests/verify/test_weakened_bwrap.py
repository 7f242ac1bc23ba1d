"""Probes can fail: without one restriction of bubblewrap's artifacts, exactly its probes fail.

Tests of verify/catalogue/__init__.py: each restriction that is removed turns its probes red.
Tests of verify/catalogue/files.py.
Tests of verify/catalogue/links.py.
Tests of verify/catalogue/listed.py.
Tests of verify/catalogue/syscalls.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.egress import Proxy, proxy
from sandwright.policy.hosts import WEB_PORTS, HostPattern
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.verify import lifecycle
from sandwright.verify import prove as proving_module
from sandwright.verify.prove import Weaken, prove
from sandwright.verify.verdict import Verdict
from support.ports import free_port
from support.proving import Prove, resolver
from support.weakening import (
    ALLOW_ALL,
    bpf,
    bpf_granting,
    group_id,
    instead_of,
    launcher,
    plan,
    probes,
    several,
    together,
    without_words,
)

POLICY = """\
schema: 1
method: bwrap
filesystem: {write: [$PROJECT], deny: [$PROJECT/.env, $PROJECT/none/below]}
network: {mode: none}
environment: {pass: [TERM, "LC_*"], set: {CI: "1"}}
resources: {files: 256}
"""

pytestmark = pytest.mark.needs("bwrap", "cc")


def test_what_is_rendered_is_green(prove_with: Prove) -> None:
    assert prove_with("bwrap", POLICY.replace("files: 256", "files: 256, time: 30s"), runs=True) == {}


OPENED = POLICY.replace("deny: [", "deny: [$PROJECT/closed, ").replace(
    "write: [", "write: [$PROJECT/closed/a/own, $PROJECT/closed/b, "
)


@pytest.mark.parametrize("beside", [[], ["a/file"], ["c"]])
def test_the_way_to_what_is_open_in_a_denied_directory_is_no_leak(
    prove_with: Prove, tmp_path: Path, beside: list[str]
) -> None:
    """An example is `~/.local/state/sandwright`, in which only an agent's state may be open."""
    closed = tmp_path / "project/closed"
    for each in ("a/own", "b"):
        (closed / each).mkdir(parents=True)
    for each in beside:
        (closed / each).write_text("secret")
    assert prove_with("bwrap", OPENED) == {}
    words = (("--tmpfs", "{project}/closed"), ("--remount-ro", "{project}/closed"))
    seen = prove_with("bwrap", OPENED, several(*(without_words(*each) for each in words)))
    assert [each for each in seen if each.endswith("/closed")]
    assert all(f"stat {closed / each} → ok" in " ".join(seen.values()) for each in beside)


_UTS = several(without_words("--unshare-uts"), without_words("--hostname", "sandbox"))
_DENIED = several(without_words("--tmpfs", "{read}/denied"), without_words("--remount-ro", "{read}/denied"))

_START = "    execute(all.at);\n"

Granted = tuple[str, ...]
"""Calls that the filter permits."""

CHANGES: dict[str, tuple[Weaken | Granted, str]] = {
    # files
    "a denied directory": (
        _DENIED,
        "files/denied-directory links/dots links/hard links/symbolic-to-denied links/through-proc",
    ),
    "a denied directory's being read-only": (
        without_words("--remount-ro", "{read}/denied"), "files/denied-directory",
    ),
    "a denied file": (without_words("--ro-bind", "/dev/null", "{read}/denied-file"), "files/denied-file"),
    "a read-only directory": (
        without_words("--ro-bind", "{write}/kept", "{write}/kept"),
        "files/read-only-in-writable links/move-restricted",
    ),
    "a read-only file": (
        without_words("--ro-bind", "{write}/kept-file", "{write}/kept-file"),
        "files/read-only-in-writable links/exchange links/hard links/move-restricted",
    ),
    "a protected name": (
        without_words("--ro-bind", "{write}/.git/hooks", "{write}/.git/hooks"), "files/protected",
    ),
    "a protected name in a repository below": (
        without_words(
            "--ro-bind", "{write}/workspace/app/.git/hooks", "{write}/workspace/app/.git/hooks"
        ),
        "files/protected-nested",
    ),
    "the mode of what lies over a denied name that doesn't exist": (
        instead_of(
            ("--perms", "0555", "--tmpfs", "{project}/.env"), ("--perms", "0777", "--tmpfs", "{project}/.env")
        ),
        "files/absent",
    ),
    "the cover of a protected name that doesn't exist": (
        without_words("--perms", "0555", "--tmpfs", "{project}/.sandbox"), "files/protected-absent",
    ),
    "the private temporary directory": (
        without_words("--tmpfs", "/tmp"), "files/temporary files/temporary-of-host network/own-sockets",
    ),
    "the sandbox's own devices": (
        instead_of(["--dev", "/dev"], ["--dev", "/dev", "--dev-bind", "/dev/full", "/dev/kmsg"]),
        "files/devices",
    ),
    # links
    "a pin": (without_words("--bind", "{write}/deep", "{write}/deep"), "links/exchange links/move-parent"),
    "a file in the place of a denied name's directory": (
        without_words("--ro-bind", "{write}/in-the-way", "{write}/in-the-way"), "links/move-file",
    ),
    "the refusal of links in a Git directory": (
        launcher("links.c", "        fault = EPERM;", "        fault = 0;"), "links/git",
    ),
    "the mount of a Git directory": (
        without_words("--bind", "{write}/.git", "{write}/.git"), "links/git links/move-repository",
    ),
    # processes
    "dropped capabilities": (
        instead_of(["--cap-drop", "ALL"], ["--cap-add", "ALL"]),
        "files/absent files/protected-absent processes/raise processes/status",
    ),
    "the namespace of processes": (
        several(
            without_words("--unshare-pid"),
            launcher("bwrap.c", '{"--as-pid-1", ', '{"--new-session", '),  # it needs that namespace
        ),
        "environment/first-process processes/inside processes/outside",
    ),
    "the namespace of IPC": (without_words("--unshare-ipc"), "processes/inside"),
    "the namespace of host names": (_UTS, "processes/inside"),
    "read-only settings of the kernel": (
        without_words("--ro-bind-try", "/proc/sys", "/proc/sys"), "processes/kernel-settings",
    ),
    "what is masked": (
        several(
            without_words("--ro-bind", "/dev/null", "/proc/interrupts"),
            without_words("--tmpfs", "/sys/firmware"),
            without_words("--remount-ro", "/sys/firmware"),
        ),
        "processes/kernel-hidden",
    ),
    "masked network devices": (
        several(
            without_words("--tmpfs", "/sys/class/net"), without_words("--remount-ro", "/sys/class/net"),
        ),
        "processes/host-interfaces",
    ),
    # syscalls
    "leases": (("fcntl",), "syscalls/leases"),
    "a refusal of bpf": (("bpf",), "syscalls/bpf"),
    "a refusal of keyctl": (("keyctl",), "syscalls/keyctl"),
    # One more filter refuses io_uring_setup.
    "a refusal of io_uring": (("io_uring_setup", "io_uring_enter"), "syscalls/io_uring_enter"),
    **{
        f"a refusal of set-user-id files by {name}": ((name,), "syscalls/set-user-id")
        for name in ("chmod", "fchmod", "fchmodat", "creat", "open", "openat", "openat2", "mknod", "mknodat")
    },
    # network
    "whose a socket is": (
        launcher("broker.c", "if (is_listed(broker, found, writable) ||", "if (true ||"),
        "network/later-socket network/project-socket",
    ),
    # environment
    "the empty environment": (
        launcher("bwrap.c", "char *const nothing[] = {NULL};", "char *const *nothing = environ;"),
        "environment/first-process environment/withheld",
    ),
    "a variable": (without_words("--setenv", "CI", "1"), "environment/set"),
    "closed descriptors": (
        launcher("bwrap.c", _START, f'    open("/", O_RDONLY);\n{_START}'),
        "environment/descriptors environment/open-directories",
    ),
    "descriptors that it was started with": (
        launcher("check.c", "    close_others(preserved, sizeof preserved / sizeof *preserved);\n", ""),
        "environment/descriptors environment/open-directories",
    ),
    "a first process that holds none of the host": (
        launcher(
            "bwrap.c",
            '    strv_push(&all, "--");\n',
            '    strv_push(&all, "--sync-fd");\n    strv_push(&all, xasprintf("%d", open("/", O_RDONLY)));\n'
            '    strv_push(&all, "--");\n',
        ),
        "environment/descriptors environment/open-directories",
    ),
    # limits
    "no core files": (
        launcher("bwrap.c", "setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});", ""), "limits/core",
    ),
    "the limit of files": (plan(lambda _, whole: replace(whole, files=None)), "limits/files"),
}  # fmt: skip


ONLY_ROOT = {"processes/kernel-settings"}
"""The probes whose attempts need root without the restriction: the files in /proc/sys are root's."""


ALONE = {"dropped capabilities", "the namespace of processes", "the private temporary directory"}
"""The edits that also change the setting of other probes."""


def _less(names: Iterable[str]) -> Weaken:
    changes = [CHANGES[name][0] for name in names]
    calls = [call for change in changes if isinstance(change, tuple) for call in change]
    weakened = [change for change in changes if not isinstance(change, tuple)]
    return several(*weakened, *([bpf_granting(*calls)] if calls else []))


@pytest.mark.parametrize("names", together(CHANGES, ALONE), ids=group_id)
def test_restrictions_less_turn_exactly_their_probes_red(names: list[str], prove_with: Prove) -> None:
    found, red = set(prove_with("bwrap", POLICY, _less(names))), probes(CHANGES, names)
    if "files/temporary" in red:  # a daemon of the host may listen there, like that of these tests
        found = {each for each in found if not each.startswith("files/deny: /tmp/")}
    assert found == red - (set() if os.geteuid() == 0 else ONLY_ROOT)


PORTS: dict[str, tuple[Weaken, str]] = {
    "a way in": (plan(lambda _, whole: replace(whole, expose=())), "network/expose: {expose}"),
    "a way to the host": (
        plan(lambda _, whole: replace(whole, localhost=())), "network/localhost: {localhost}",
    ),
    "the loopback as the only address": (
        launcher("relay.c", "htonl(INADDR_LOOPBACK)", "htonl(INADDR_ANY)"), "network/expose: {expose}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "red"), PORTS.values(), ids=PORTS)
def test_ports_that_lead_elsewhere_or_nowhere_are_red(change: Weaken, red: str, prove_with: Prove) -> None:
    ports = {"expose": free_port(), "localhost": free_port()}
    listed = "network: {{mode: none, expose: [{expose}], localhost: [{localhost}]}}".format(**ports)
    assert set(prove_with("bwrap", POLICY.replace("network: {mode: none}", listed), change)) == {
        red.format(**ports)
    }


def test_without_a_network_of_its_own(prove_with: Prove) -> None:
    """With its own Unix sockets it would not start."""
    policy = POLICY.replace("{mode: none}", "{mode: none, own_sockets: false}")
    assert set(prove_with("bwrap", policy, without_words("--unshare-net"))) == {
        *("network/host-address", "network/host-loopback", "network/interfaces", "network/outside"),
        "processes/inside",
    }


def test_without_a_filter_all_that_only_it_refuses_is_red(prove_with: Prove) -> None:
    red = prove_with("bwrap", POLICY, bpf(ALLOW_ALL))
    assert {each.split("/")[0] for each in red} == {"processes", "syscalls"}, "one more filter has connect(2)"
    needs_rights = {"acct", "pivot_root", "reboot", "settimeofday", "fanotify_init"}
    spared = {"syscalls/" + name for name in needs_rights}
    assert not spared & set(red), "the kernel itself refuses these without rights"
    assert {"syscalls/clone3", "syscalls/terminal", "syscalls/other-abi", "processes/unshare"} <= set(red)


RUNS: dict[str, tuple[Weaken, str]] = {
    "dying with the launcher": (
        several(
            launcher("monitor.c", "restore();\n        end_run(run);", "restore();\n        (void)run;"),
            launcher("monitor.c", "take_signal(message.value);", "(void)take_signal;"),
        ),
        "lifecycle/ghosts lifecycle/killed lifecycle/terminated",
    ),
    "the check of what was rendered": (
        launcher(
            "check.c",
            "if (strcmp(sha256_hex(each->content, each->length), artifacts->at[index + 1]) != 0)",
            "if (strlen(artifacts->at[index + 1]) != 64)",
        ),
        "lifecycle/changed",
    ),
}  # fmt: skip

UNWATCHED = {"lifecycle/denied-later"}
"""The probes that fail without the watch, which would start nothing weakened."""


@pytest.mark.parametrize(("change", "red"), RUNS.values(), ids=RUNS)
def test_one_duty_of_the_launcher_less(
    change: Weaken, red: str, prove_with: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "GRACE", 5.0)  # leftovers stay
    assert set(prove_with("bwrap", POLICY, change, runs=True)) == {*red.split(), *UNWATCHED}


def test_a_dangling_link_is_held(prove_with: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".zshrc").symlink_to("project/zshrc")
    assert prove_with("bwrap", POLICY) == {}
    opened = without_words("--perms", "0555", "--tmpfs", "{project}/zshrc")
    assert set(prove_with("bwrap", POLICY, opened)) == {"files/absent"}


def test_a_denied_name_that_is_not_watched(tmp_path: Path) -> None:
    weaken = plan(lambda _, whole: replace(whole, denied_names=()))
    proof = prove(resolver(POLICY, tmp_path / "project"), "bwrap", weaken=weaken, secrets=False)
    red = {each.probe for each in proof.outcomes if each.verdict is not Verdict.PASS}
    assert red == {"lifecycle/denied-later"}


def test_without_the_watcher_time_is_never_up(prove_with: Prove, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "START", 15.0)  # it would sleep for a minute
    timed = POLICY.replace("files: 256", "files: 256, time: 30s")
    unwatched = launcher("monitor.c", "{.it_value.tv_sec = run->plan.time}", "{.it_value.tv_sec = 1000}")
    assert set(prove_with("bwrap", timed, unwatched, runs=True)) == {"lifecycle/time", *UNWATCHED}


@pytest.mark.needs("bwrap", "cc", "squid")
@pytest.mark.parametrize(("more", "red"), [((), ""), (("*.invalid",), "network/proxy")], ids=["none", "one"])
def test_one_host_more_that_the_proxy_lets_through(
    more: tuple[str, ...], red: str, prove_with: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lenient(policy: ResolvedPolicy) -> AbstractContextManager[Proxy]:
        allow = (*policy.network.allow, *(HostPattern(each, WEB_PORTS) for each in more))
        return proxy(replace(policy, network=replace(policy.network, allow=allow)))

    monkeypatch.setattr(proving_module, "proxy", lenient)
    monkeypatch.setattr("sandwright.egress.plan.check_proxy", lambda *_, **__: None)  # it refuses more hosts
    proxied = POLICY.replace("{mode: none}", "{mode: proxy, allow: [web.example]}")
    assert set(prove_with("bwrap", proxied)) == set(red.split())
