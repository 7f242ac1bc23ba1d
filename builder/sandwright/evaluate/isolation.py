"""The required isolation apart from files, network and variables, and the artifacts that provide less.

The policy and the method's declaration require it; the artifacts show whether it is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.errors import UsageError
from sandwright.evaluate.explain.calls import UNLISTED
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.explain.isolation import Isolation
from sandwright.evaluate.explain.own import own_answer
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked
from sandwright.policy.declaration import Declaration
from sandwright.policy.hidden import hidden_in_hosts_sys, hidden_paths
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.baseline import load_baseline


@dataclass(frozen=True)
class Exposure:
    """Something of the host, or a right, that the artifacts leave to the sandbox."""

    subject: str
    denied_by: str
    position: ArtifactPosition

    def __str__(self) -> str:
        """`capability SYS_ADMIN: denied by process.sandbox_root: false (…), allowed by FILE:12:1: …`."""
        return f"{self.subject}: denied by {self.denied_by}, allowed by {self.position}"


def exposures(
    policy: ResolvedPolicy, declaration: Declaration, sandbox: ReadBack, arch: str
) -> Iterator[Exposure]:
    """All exposures of a sandbox.

    Raise UsageError if the declaration promises something that no reader of artifacts checks.
    """
    yield from _default_action(policy, sandbox, arch)
    isolation = sandbox.isolation()
    if isolation is None:
        if declaration.namespaces or declaration.masks_kernel:
            raise UsageError(
                f"{declaration.method} declares namespaces or masks, and nothing reads them back"
            )
        return
    yield from _missing_namespaces(declaration, isolation)
    yield from _excess_rights(policy, isolation)
    for device, position in isolation.devices.items():
        yield Exposure(f"device {device}", f"{declaration.method}: no device of the host", position)
    for word, position in isolation.unmasked.items():
        yield Exposure(f"masks of /proc and /sys ({word})", f"{declaration.method}: process.kernel", position)
    if isinstance(sandbox, Enclosure):
        yield from _foreign_links(policy, sandbox)
        if declaration.masks_kernel and not isolation.engine_masks:
            yield from _kernel_paths(policy, declaration, sandbox)


def _default_action(policy: ResolvedPolicy, sandbox: ReadBack, arch: str) -> Iterator[Exposure]:
    """Check a filter's action on calls that none of its rules names, such as those of a newer kernel."""
    call = Asked("syscall", UNLISTED, name=UNLISTED)
    verdict = sandbox.answer(call, policy.facts, arch)
    if verdict.allowed:
        expected = own_answer(policy, call, arch)
        if not expected.allowed:
            ground = f"{expected.ground.text} ({expected.ground.source})"
            yield Exposure(UNLISTED, ground, verdict.position or ArtifactPosition("", verdict.because))


def _missing_namespaces(declaration: Declaration, isolation: Isolation) -> Iterator[Exposure]:
    for kind in sorted(declaration.namespaces - isolation.namespaces):
        yield Exposure(f"namespace {kind} of the host", f"{declaration.method}: a separate one", isolation.at)


def _excess_rights(policy: ResolvedPolicy, isolation: Isolation) -> Iterator[Exposure]:
    """Capabilities and set-user-id programs beyond the grants of `process.sandbox_root` to root inside."""
    sandbox_root = policy.process.sandbox_root
    ground = f"process.sandbox_root: {str(sandbox_root).lower()} ({policy.source('process.sandbox_root')})"
    granted = {
        each.removeprefix("CAP_") for each in load_baseline().capabilities["init" if sandbox_root else "none"]
    }
    for capability, position in isolation.capabilities.items():
        if capability not in granted | isolation.granted:
            yield Exposure(f"capability {capability}", ground, position)
    if isolation.gains_rights is not None and not sandbox_root:
        yield Exposure("set-user-id programs", ground, isolation.gains_rights)
    if isolation.writable_root is not None:
        yield Exposure("write the image's root", "the sandbox's own root, read-only", isolation.writable_root)


def _kernel_paths(policy: ResolvedPolicy, declaration: Declaration, sandbox: Enclosure) -> Iterator[Exposure]:
    """Paths of /proc and /sys that are not hidden, or can be written.

    Over an image all are named, as its kernel may be another; over the host's root those that it has.
    """
    ground = f"{declaration.method}: process.kernel"
    at = sandbox.isolated.at
    for path in (*hidden_paths(), *_hidden_in_sys(policy, sandbox)):
        there = sandbox.root == "image" or policy.facts.kind(path) not in (None, "symlink")
        mount = sandbox.mount_over(path, policy.facts) if there else None
        hidden = mount is not None and (
            mount.kind == "mask" or (mount.kind, mount.writable) == ("tmpfs", False)
        )
        if there and not hidden:
            yield Exposure(f"read {path}", ground, at)
    for path in load_baseline().readonly:
        mount = sandbox.mount_over(path, policy.facts)
        if mount is None or mount.writable:
            yield Exposure(f"write {path}", ground, at)


def _hidden_in_sys(policy: ResolvedPolicy, sandbox: Enclosure) -> list[str]:
    """The paths that have to be hidden in addition where the host's /sys is shown."""
    mount = sandbox.mount_over("/sys", policy.facts)
    if mount is None or mount.kind != "bind":
        return []
    return hidden_in_hosts_sys(policy.facts, own_network=policy.network.mode != "host")


def _foreign_links(policy: ResolvedPolicy, sandbox: Enclosure) -> Iterator[Exposure]:
    """Links that are not the host's: under another one a path has another meaning than in the policy.

    bubblewrap creates such links on the host if their parent directory is bind-mounted.
    """
    for mount, position in sandbox.mounts:
        if mount.kind == "symlink" and policy.facts.link(mount.target) != mount.source:
            ground = "the host, which has no such link"
            yield Exposure(f"link {mount.target} to {mount.source}", ground, position)
