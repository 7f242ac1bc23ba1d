"""Spells a container as arguments of `docker run` and `podman run`.

Every setting that matters is given, also where it is the default of an engine, since an engine's
configuration changes its defaults. The fields of `--mount` are those of a CSV record (RFC 4180, as Go's
encoding/csv reads it); both engines read them so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sandwright.errors import RenderError
from sandwright.methods.shared.engine.container import TMP, Bind, Container
from sandwright.policy.resolved import Resources
from sandwright.render.baseline import load_baseline

PERIOD = 100_000
"""Microseconds in which a share of processors is counted: the kernel's default. A share that would be less
than the kernel's least, 1000, is counted in a second instead."""

DETACH_KEYS = "ctrl-^,ctrl-_,ctrl-^,ctrl-_"
"""The keys that detach a terminal from its running container: a sequence that no user types."""


def run_arguments(container: Container) -> tuple[str, ...]:
    """The options of `run`. A run's own options come after them, then the image and the command.

    Raise RenderError for a path that the engine has no spelling for.
    """
    return (
        *_base_arguments(container),
        *_own_base(container),
        *_rights_arguments(container),
        *limit_arguments(container.limits),
        *_mount_arguments(container),
        *(f"--env={name}={value}" for name, value in sorted(container.environment.items())),
        *_unset_arguments(container),
    )


def network_arguments(container: Container) -> tuple[str, ...]:
    """The options that choose the network, if no launcher starts a proxy."""
    return (f"--network={container.network}",)


def mount_argument(*fields: str) -> str:
    """`--mount=…` of fields such as `type=bind`. Raise RenderError like `mount_fields`."""
    return f"--mount={mount_fields(*fields)}"


def mount_fields(*fields: str) -> str:
    """Fields as a CSV record, each quoted where it needs to be.

    Raise RenderError for a field with a line break of two characters, which CSV readers make one.
    """
    return ",".join(map(_csv_field, fields))


def limits_of_processors(cpus: float) -> tuple[int, int]:
    """The period and the share of it, in microseconds, that a number of processors is."""
    period = PERIOD if cpus * PERIOD >= 1000 else 10 * PERIOD
    return period, round(cpus * period)


def ulimits(limits: Resources) -> dict[str, int]:
    """The limits of each process by the name that engines give them; soft and hard are the same."""
    found = {limit.type.removeprefix("RLIMIT_").lower(): limit.hard for limit in load_baseline().rlimits}
    return found | ({} if limits.files is None else {"nofile": limits.files})


def scratch_options() -> str:
    """The options of a directory that can be written, as in mount(8): the baseline's for /tmp, and `exec`."""
    tmp_mount = next(mount for mount in load_baseline().mounts if mount.destination == "/tmp")  # noqa: S108
    return ",".join(("rw", "exec", *tmp_mount.options))


def scratch_mount(container: Container, path: str) -> str:
    """A directory that can be written, and its options. Raise RenderError for a path with a colon.

    With Docker, one beside /tmp belongs to the container's user: Docker makes the working directory first, as
    root, and runc 1.1 gives a tmpfs the mode of the directory that it finds.
    """
    if ":" in path:
        raise RenderError(f"{container.engine} takes no colon in the temporary directory {path!r}")
    options = scratch_options()
    if container.engine == "docker" and container.user is not None and path != TMP:
        options += ",uid={},gid={}".format(*container.user)
    return f"{path}:{options}"


def _base_arguments(container: Container) -> Iterator[str]:
    yield from ("--rm", "--interactive", "--pull=never", "--read-only", "--entrypoint=", "--no-healthcheck")
    yield from ("--log-driver=none", f"--detach-keys={DETACH_KEYS}")
    yield from ("--ipc=private", "--cgroupns=private")
    if not container.proxied:
        yield from network_arguments(container)
    yield from (f"--hostname={container.hostname}", f"--workdir={container.directory}")


def _own_base(container: Container) -> Iterator[str]:
    """The options that only one of the engines has."""
    if container.engine == "docker":
        yield "--init=false"  # the launcher brings its own
        return
    yield from ("--read-only-tmpfs=false", "--image-volume=ignore", "--systemd=false")
    yield from ("--http-proxy=false", "--env-host=false")
    yield f"--security-opt=mask={':'.join((*load_baseline().masked, *container.masked))}"
    shared = next(mount for mount in load_baseline().mounts if mount.destination == "/dev/shm")  # noqa: S108
    yield f"--tmpfs=/dev/shm:{','.join(('rw', *shared.options))}"


def _rights_arguments(container: Container) -> Iterator[str]:
    yield "--cap-drop=ALL"
    for capability in container.capabilities:
        yield f"--cap-add={capability}"
    if not container.gains_rights:
        yield "--security-opt=no-new-privileges"
    if container.user is not None:
        uid, gid = container.user
        yield f"--user={uid}:{gid}"
    if container.keep_id:
        yield "--userns=keep-id"


def limit_arguments(limits: Resources) -> Iterator[str]:
    """The options for the limits of a container."""
    if limits.memory is not None:
        yield from (f"--memory={limits.memory}b", f"--memory-swap={limits.memory}b")
    if limits.cpus is not None:
        period, quota = limits_of_processors(limits.cpus)
        yield from (f"--cpu-period={period}", f"--cpu-quota={quota}")
    if limits.pids is not None:
        yield f"--pids-limit={limits.pids}"
    for name, limit in ulimits(limits).items():
        yield f"--ulimit={name}={limit}:{limit}"


def _mount_arguments(container: Container) -> Iterator[str]:
    """An engine sorts them by depth itself."""
    for bind in container.binds:
        yield _bind_argument(bind)
    for path in container.folders:
        more = ("notmpcopyup",) if container.engine == "podman" else ()
        yield mount_argument("type=tmpfs", f"dst={path}", "ro", "tmpfs-mode=0555", *more)
    for path in container.scratch:
        yield f"--tmpfs={scratch_mount(container, path)}"


def _bind_argument(bind: Bind) -> str:
    """With `--volume` where newer clients of Docker cut white space off, or CSV changes a line break."""
    source, target = bind.source, bind.target
    if any(path != path.rstrip() or "\r\n" in path for path in (source, target)):
        if ":" in source + target:
            raise RenderError(f"cannot pass {source!r} to an engine: rename it, or choose another method")
        return f"--volume={source}:{target}:{'rw' if bind.writable else 'ro'},rprivate"
    access = () if bind.writable else ("readonly",)
    return mount_argument("type=bind", f"src={source}", f"dst={target}", "bind-propagation=rprivate", *access)


def _csv_field(field: str) -> str:
    if "\r\n" in field:
        raise RenderError(f"cannot pass {field!r} to an engine: rename it, or choose another method")
    return f'"{field.replace(_QUOTE, 2 * _QUOTE)}"' if _SPECIAL.search(field) else field


_QUOTE = '"'
_SPECIAL = re.compile('[,"\r\n]')


def _unset_arguments(container: Container) -> Iterator[str]:
    """A name alone is the client's value, or none; `launch` takes it away before."""
    if container.engine == "docker":
        yield from (f"--env={name}" for name in container.unset)
