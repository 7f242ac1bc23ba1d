"""Options of `docker run` and `podman run` that are rendered, and the host access that they leave.

Unlisted options, and unlisted values of options that grant access, are refused, because their effect is
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sandwright.evaluate.explain.isolation import ENGINE_DEFAULTS, Isolation, refuse_unknown
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.policy.declaration import Namespace

Option = tuple[str, str, ArtifactPosition]
"""Its name, its value, and where it is."""

_KNOWN: Mapping[str, tuple[str, ...] | None] = {
    **dict.fromkeys(("--rm", "--interactive", "--read-only", "--no-healthcheck", "--entrypoint"), ("",)),
    **dict.fromkeys(("--read-only-tmpfs", "--systemd", "--http-proxy", "--env-host"), ("false",)),
    **dict.fromkeys(
        (
            *("--detach-keys", "--network", "--hostname", "--workdir", "--user", "--memory", "--memory-swap"),
            *("--cpu-period", "--cpu-quota", "--pids-limit", "--ulimit", "--mount", "--volume", "--tmpfs"),
            *("--env", "--cap-add", "--security-opt", "--ipc", "--cgroupns"),
        )
    ),
    "--init": ("", "false"),
    "--pull": ("never",),
    "--log-driver": ("none",),
    "--image-volume": ("ignore",),
    "--cap-drop": ("ALL",),
    "--userns": ("keep-id",),
}
"""The values of each; None where all are, or others look at them."""

_UNMASKING = ("systempaths=unconfined", "unmask=ALL")
_NOTHING_GAINED = ("no-new-privileges", "no-new-privileges:true")
_PRIVATE: Mapping[str, Namespace] = {"--ipc": "ipc", "--cgroupns": "cgroup"}


def check_options(options: Iterable[Option], *, filters: bool = False) -> None:
    """Raise DocumentError for an unknown option or value, and for a limit of memory that leaves swap.

    `filters`: one may name a filter of system calls, which the caller looks at; else the launcher does.
    """
    options = list(options)
    limits = {name: value for name, value, _ in options}
    for name, value, position in options:
        values = _KNOWN.get(name, ())
        if values is not None and value not in values:
            raise refuse_unknown(position)
        if name == "--memory" and limits.get("--memory-swap") != value:
            raise refuse_unknown(position)
        if name == "--security-opt" and not _is_known(value, filters=filters):
            raise refuse_unknown(position)


def _is_known(word: str, *, filters: bool) -> bool:
    named = filters and word.startswith(("seccomp=", "seccomp:"))
    return named or word in (*_NOTHING_GAINED, *_UNMASKING) or word.startswith("mask=")


def is_filtered(words: Sequence[str], expected: str) -> bool:
    """Whether words of `--security-opt` name the filter of the policy, and no other."""
    named = [word for word in words if word.startswith("seccomp")]
    return named == [expected]


def isolation_of(options: Sequence[Option], at: ArtifactPosition) -> Isolation:
    """The isolation of a container with these options; engines isolate mounts, processes and names."""
    pairs = {(name, value) for name, value, _ in options}
    security = [(value, position) for name, value, position in options if name == "--security-opt"]
    held = {value.removeprefix("CAP_"): position for name, value, position in options if name == "--cap-add"}
    if ("--cap-drop", "ALL") not in pairs:
        held[ENGINE_DEFAULTS] = at
    private = {kind for name, kind in _PRIVATE.items() if {v for n, v in pairs if n == name} == {"private"}}
    return Isolation(
        at,
        {"mount", "pid", "uts", *private},
        held,
        gains_rights=None if any(word in _NOTHING_GAINED for word, _ in security) else at,
        writable_root=None if ("--read-only", "") in pairs else at,
        unmasked={word: position for word, position in security if word in _UNMASKING},
        engine_masks=True,
    )
