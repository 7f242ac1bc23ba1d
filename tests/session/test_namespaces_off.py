"""The report of `doctor` if a setting keeps a normal user from creating user namespaces."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.errors import HostError
from sandwright.host import MachineFacts, collect_host
from sandwright.inputs import LiveHost
from sandwright.methods.bwrap.backend import explain_failure
from sandwright.methods.contract import Backend, Code, Preflight
from sandwright.methods.registry import backend
from sandwright.methods.shared.engine.backend import EngineBackend
from sandwright.methods.shared.runtime_spec.backend import Runtime
from sandwright.methods.shared.trial import judged
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer
from sandwright.policy.merged import MergedPolicy
from sandwright.runtime.trial import Failed
from sandwright.session import preflights
from sandwright.session.prepare import choose_method

OFF = (
    "namespaces-off",
    "user namespaces are switched off (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)",
    "sudo sysctl -w kernel.unprivileged_userns_clone=1",
)


def _host(*, off: bool = False, restricted: bool = False, uid: int = 1000) -> MachineFacts:
    return replace(
        collect_host(),
        uid=uid,
        surroundings="machine",
        max_user_namespaces=100,
        unprivileged_user_namespaces=not off,
        apparmor_restricts_user_namespaces=restricted,
    )


@pytest.mark.parametrize(
    "words", ["create new namespace", "create a new namespace", "creating new namespace"]
)
def test_each_bubblewrap(words: str) -> None:
    """Debian's version 0.8, version 0.11, and upstream's 0.8."""
    failed = Failed("not-started", f"bwrap: No permissions to {words} namespace, likely because")
    assert explain_failure(failed, _host(off=True)) == OFF


def test_a_profile_that_denies_them() -> None:
    """AppArmor's or SELinux' profile for bubblewrap: no setting shows it; the answer is EACCES, not EPERM."""
    failed = Failed("not-started", "bwrap: Creating new namespace failed: Permission denied")
    code, message, remedy = explain_failure(failed, _host())
    assert (code, message) == (
        "namespaces-restricted",
        "a security module (AppArmor, SELinux) refuses bubblewrap new namespaces",
    )
    assert remedy.startswith("allow its profile `userns`, as /")


@pytest.mark.parametrize(
    "output",
    [
        "sandbox: cannot supervise connections, which … need (pidfd_getfd(2)): Operation not permitted",
        "runc run failed: unable to start: performing SYS_PIDFD_GETFD syscall: operation not permitted",
    ],
)
def test_ptrace_that_is_off(output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under bwrap, and under runc: the remedy is a reboot."""
    monkeypatch.setattr("sandwright.methods.shared.launched.YAMA", f"{tmp_path}/scope")
    failed = Failed("not-started", output)
    other: tuple[Code, str, str] = ("not-started", "another", "fault")
    assert judged("oci", failed, lambda _: other) == Preflight("oci", *other)
    (tmp_path / "scope").write_text("3\n")
    found = judged("oci", failed, lambda _: other)
    assert (found.code, found.remedy) == (
        "kernel-lacks",
        "set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d, and boot again",
    )
    assert found.message.endswith(": ptrace(2) is off until the next boot (kernel.yama.ptrace_scope is 3)")
    assert ("content", f"{tmp_path}/scope") in backend("oci").depends(collect_host())
    (tmp_path / "scope").write_text("1\n")
    assert judged("oci", failed, lambda _: other) == Preflight("oci", *other)


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts others under `user`")
def test_user_needs_ptrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method starts without it, and then each symbolic link fails (EFAULT)."""
    monkeypatch.setattr("sandwright.methods.shared.launched.YAMA", f"{tmp_path}/scope")
    (tmp_path / "scope").write_text("3\n")
    found = backend("user").preflight(collect_host())
    assert (found.code, found.message.partition(":")[0]) == (
        "kernel-lacks",
        "programs inside could create no symbolic link",
    )


@pytest.mark.parametrize(
    ("method", "output"),
    [
        ("podman", "Error: cannot re-exec process"),
        ("podman", "cannot clone: Operation not permitted"),
        ("oci", "runc run failed: unable to start container process: no namespace"),
        ("gvisor", "running container: creating container: cannot create sandbox"),
    ],
)
def test_engines_and_runtimes(method: str, output: str) -> None:
    """The message names the setting that enables them, as for bwrap; root's other faults stay the same."""
    chosen, failed = backend(method), Failed("not-started", output)
    assert isinstance(chosen, (EngineBackend, Runtime))
    assert chosen.explained(failed, _host(off=True)) == OFF
    code, message, remedy = chosen.explained(failed, _host(restricted=True))
    assert (code, message) == (
        "namespaces-restricted",
        "user namespaces are restricted by AppArmor (sysctl kernel.apparmor_restrict_unprivileged_userns)",
    )
    assert remedy == "run it as root, or load an AppArmor profile that allows it `userns`"
    assert chosen.explained(failed, _host(off=True, uid=0)) == ("not-started", output, "")


def test_docker_has_a_daemon() -> None:
    """Its client needs no user namespace."""
    chosen = backend("docker")
    assert isinstance(chosen, EngineBackend)
    assert chosen.explained(Failed("not-started", "no"), _host(off=True)) == ("not-started", "no", "")


def test_a_run_without_a_policy_names_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Landlock is never chosen without a policy; `sandwright init` writes one for it."""

    def known(backend: Backend, host: MachineFacts) -> Preflight:
        return Preflight(
            backend.name, "ready" if backend.name == "landlock" else "namespaces-off", "no", "do"
        )

    monkeypatch.setattr(preflights, "cached_preflight", known)
    policy = MergedPolicy.from_layers([layer("schema: 1\nextends: [default]\n", file="a policy", methods=())])
    resolved = policy.resolve(collect_facts(policy, project=tmp_path, environ={"HOME": "/home/lab"}))
    with pytest.raises(HostError) as caught:
        choose_method(resolved, LiveHost(), proposed=True)
    *refused, last = str(caught.value).splitlines()
    assert refused == [f"{name}: no; do" for name in ("bwrap", "podman", "docker", "gvisor", "oci")]
    assert (
        last == "landlock works here, and enforces less: `sandwright init` writes a policy that accepts that"
    )


@pytest.mark.parametrize("method", ["bwrap", "podman", "oci"])
def test_a_profile_that_is_loaded_later(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that worked is tried again: the profile may deny a call that it needs."""
    (tmp_path / "profiles/firefox.3").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sandwright.methods.shared.launched.PROFILES", f"{tmp_path}/profiles")
    host, chosen = collect_host(), backend(method)
    monkeypatch.setattr(type(chosen), "preflight", lambda *_: Preflight(method, "ready"))
    assert preflights.cached_preflight(chosen, host).ready
    monkeypatch.setattr(type(chosen), "preflight", lambda *_: Preflight(method, "namespaces-restricted"))
    assert preflights.cached_preflight(chosen, host).ready
    (tmp_path / "profiles/bwrap.4").mkdir()
    assert not preflights.cached_preflight(chosen, host).ready


def test_a_sandbox_that_hung_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may be the reason. Before, a method that was passed over in a list never came back."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    host, chosen = collect_host(), backend("bwrap")
    hung = Preflight("bwrap", "hangs")
    monkeypatch.setattr(type(chosen), "preflight", lambda *_: hung)
    assert not preflights.cached_preflight(chosen, host).ready
    assert ("minute", "") in set(preflights.preflight_questions(hung, chosen, host))
    monkeypatch.setattr(type(chosen), "preflight", lambda *_: Preflight("bwrap", "ready"))
    assert not preflights.cached_preflight(chosen, host).ready, "each start would wait for it"
    (cached,) = tmp_path.rglob("preflight-bwrap.json")
    for moved in (-700, 700):
        os.utime(cached, (time.time() + moved,) * 2)
        assert preflights.cached_preflight(chosen, host).ready
        monkeypatch.setattr(type(chosen), "preflight", lambda *_: hung)
        preflights.run_preflight(chosen, host)
        monkeypatch.setattr(type(chosen), "preflight", lambda *_: Preflight("bwrap", "ready"))
