"""Reads bubblewrap's artifacts back: its arguments as bwrap takes them, the filter, the launcher's plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Calls, Enclosure
from sandwright.evaluate.explain.isolation import ALL, Isolation, refuse_unknown
from sandwright.evaluate.explain.plans import read_plan
from sandwright.evaluate.explain.verdict import ArtifactPosition, words_in
from sandwright.methods.bwrap.render import GITIGNORE, PLACEHOLDER_MODE
from sandwright.policy.declaration import Namespace
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.questions import EntryKind
from sandwright.render.mounts import Mount, MountKind
from sandwright.render.rendered import Rendered

_NAMESPACES: Mapping[str, Namespace] = {
    "--unshare-user": "user",
    "--unshare-pid": "pid",
    "--unshare-ipc": "ipc",
    "--unshare-uts": "uts",
    "--unshare-cgroup-try": "cgroup",
}

_ARITY = {
    **dict.fromkeys((*_NAMESPACES, "--unshare-net", "--die-with-parent", "--new-session"), 0),
    **dict.fromkeys(
        (
            *("--hostname", "--seccomp", "--cap-drop", "--cap-add", "--uid", "--gid", "--proc", "--dev"),
            *("--tmpfs", "--remount-ro", "--chdir", "--dir", "--perms", "--size"),
        ),
        1,
    ),
    **dict.fromkeys(
        (
            *("--bind", "--ro-bind", "--dev-bind", "--bind-try", "--ro-bind-try", "--symlink", "--setenv"),
            "--file",
        ),
        2,
    ),
}
"""The number of values after each option that is rendered (bwrap(1)); other options are refused."""


def read_bwrap(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The sandbox that the arguments make. Raise DocumentError for an option that is not rendered."""
    options = list(_parse_options(rendered.artifact("args").content))
    launch = read_plan(rendered)
    pairs = launch.words_of("uncreatable")
    uncreatable = [
        (Mount(f"{directory.rstrip('/')}/{name}", "mask"), position)
        for (directory, _), (name, position) in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    net = [each for each in options if each[0] == "--unshare-net"]
    return Enclosure(
        "host",
        (*_mounts(options), *uncreatable),
        network=_position(net[-1]) if net else None,
        environment={words[1]: _position(words) for words in options if words[0] == "--setenv"},
        passing=launch.passing(),
        calls=_filter(rendered, options),
        isolated=_isolation(options),
        absent=launch.absent(),
        localhost=launch.ports("localhost"),
        expose=launch.ports("expose"),
        connects=launch.plan.sockets.host if launch.plan.sockets.supervised else None,
    )


def _isolation(options: Sequence[tuple[str, ...]]) -> Isolation:
    """No program gains rights, to which bubblewrap itself sees; without `--cap-drop` root keeps its own."""
    held = {words[1].removeprefix("CAP_"): _position(words) for words in options if words[0] == "--cap-add"}
    dropped = any(words == ("--cap-drop", "ALL") for words in options)
    return Isolation(
        ArtifactPosition("args", ""),
        frozenset(_NAMESPACES[words[0]] for words in options if words[0] in _NAMESPACES),
        held if dropped else {**held, ALL: ArtifactPosition("args", "without --cap-drop ALL")},
    )


def _filter(rendered: Rendered, options: Sequence[tuple[str, ...]]) -> Calls:
    if all(each[0] != "--seccomp" for each in options):
        return calls.unfiltered("args")
    return calls.of_bpf(rendered.artifact("seccomp.bpf").content, "seccomp.bpf")


def _parse_options(content: bytes) -> Iterator[tuple[str, ...]]:
    """Each option with its values."""
    words = words_in(content)
    index = 0
    while index < len(words):
        count = _ARITY.get(words[index])
        if count is None:
            raise refuse_unknown(ArtifactPosition("args", words[index]))
        yield tuple(words[index : index + 1 + count])
        index += 1 + count


def _mounts(options: Sequence[tuple[str, ...]]) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """In mount order, with read-only remounts at the end."""
    closed = {words[1] for words in options if words[0] == "--remount-ro"}
    modes = (words[1] if words[0] == "--perms" else "" for words in options)
    for before, words in zip(("", *modes), options, strict=False):
        mount = _mount(words)
        if mount is not None and (mount.target in closed or before in (PLACEHOLDER_MODE, GITIGNORE)):
            mount = replace(mount, writable=False)
        if mount is not None:
            yield mount, _position(words)


def _mount(words: tuple[str, ...]) -> Mount | None:
    name, target = words[0].removesuffix("-try"), words[-1]
    if name in ("--bind", "--ro-bind", "--dev-bind"):
        kind: MountKind = "mask" if words[1] == "/dev/null" and target != "/dev/null" else "bind"
        entry: EntryKind = "file" if kind == "mask" else "directory"
        return Mount(target, kind, name != "--ro-bind" and kind == "bind", words[1], entry)
    if name == "--tmpfs":
        return Mount(target, "tmpfs", writable=True)
    if name in ("--dev", "--proc"):
        return Mount(target, "dev" if name == "--dev" else "proc", writable=True)
    if name == "--symlink":
        return Mount(target, "symlink", source=words[1], entry="symlink")
    if name == "--file":
        return Mount(target, "tmpfs", writable=True, entry="file")
    return None


def _position(words: Sequence[str]) -> ArtifactPosition:
    return ArtifactPosition("args", " ".join(words))
