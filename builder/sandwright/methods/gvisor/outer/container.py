"""An outer container that stays: sandboxes are made in it by name, over one shared root."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.engines.client import EngineClient, client_environment
from sandwright.errors import HostError
from sandwright.host import collect_host
from sandwright.methods.gvisor.outer.backend import IMAGE, engine_backend
from sandwright.methods.gvisor.outer.render import SESSION, Grant, outer_options
from sandwright.methods.shared.engine.arguments import mount_argument
from sandwright.methods.shared.engine.backend import LABEL, PREFIX
from sandwright.methods.shared.rundirs import record_directory
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.scratch import hidden_directory, scratch_directory
from sandwright.watchdog import runtime_environment

LIMIT = 60.0
"""Seconds that an operation on a container may take."""


@dataclass(frozen=True)
class OuterContainer:
    """A running container with gVisor in it.

    Its methods call the session program inside. The names of sandboxes are letters, digits, dots and hyphens.
    Results are those of the session program: falsy unless the status is 0.
    """

    engine: EngineClient
    name: str

    def run(
        self,
        *argv: str,
        stdin: bytes | None = None,
        variables: Mapping[str, str] | None = None,
        limit: float = LIMIT,
    ) -> process.Result:
        """Run one command in a new sandbox, from start to end; its status is the command's.

        125 means that nothing was run, 127 that the command was not found. `variables` are added to those
        that the policy sets. Raise CommandFailed when it runs out of time.
        """
        return self._exec_in_container("run", *argv, stdin=stdin, variables=variables, limit=limit)

    def create(self, sandbox: str, *argv: str, variables: Mapping[str, str] | None = None) -> None:
        """Create a sandbox whose command waits for `start`. Its output is recorded. Raise HostError."""
        self._must("create", sandbox, *argv, variables=variables)

    def start(self, sandbox: str) -> None:
        """Let the command of a sandbox begin. Raise HostError."""
        self._must("start", sandbox)

    def exec(self, sandbox: str, *argv: str, limit: float = LIMIT) -> process.Result:
        """Run another command in a sandbox that was started."""
        return self._exec_in_container("exec", sandbox, *argv, limit=limit)

    def wait(self, sandbox: str, *, limit: float = LIMIT) -> int:
        """Wait for the command to end; 128 + n says that signal n ended it. Raise CommandFailed in time."""
        return self._exec_in_container("wait", sandbox, limit=limit).status

    def output(self, sandbox: str) -> process.Result:
        """The output of the command so far, standard output and standard error."""
        return self._exec_in_container("output", sandbox)

    def kill(self, sandbox: str, signal: str = "TERM") -> None:
        """Send the command a signal. Raise HostError when it is not running."""
        self._must("kill", sandbox, signal)

    def delete(self, sandbox: str) -> None:
        """End a sandbox in any state, and remove all of it. Raise HostError when there is none."""
        self._must("delete", sandbox)

    def sandboxes(self) -> tuple[str, ...]:
        """The names of the existing sandboxes."""
        return tuple(self._must("list").text.splitlines())

    def _must(self, *words: str, variables: Mapping[str, str] | None = None) -> process.Result:
        result = self._exec_in_container(*words, variables=variables)
        if not result:
            raise HostError(
                f"gVisor's {words[0]} {' '.join(words[1:2])}: {result.stderr.strip() or result.status}"
            )
        return result

    def _exec_in_container(
        self,
        *words: str,
        stdin: bytes | None = None,
        variables: Mapping[str, str] | None = None,
        limit: float = LIMIT,
    ) -> process.Result:
        """The client gets values of variables in its environment; all users can read its arguments."""
        granted = dict(variables or {})
        options = ["--env=SANDWRIGHT_PASSED=" + " ".join(granted)] if granted else []
        options += [f"--env={name}" for name in granted]
        return self.engine.exec(
            *(self.name, SESSION, *words), options=options, stdin=stdin, variables=granted, timeout=limit
        )


@contextlib.contextmanager
def outer_container(
    policy: ResolvedPolicy,
    rootfs: Path,
    *,
    granted: Grant | None = None,
    image: str = IMAGE,
    environment: Mapping[str, str] | None = None,
) -> Iterator[OuterContainer]:
    """Start the container that `gvisor.engine` asks for, for the length of a `with`.

    `rootfs` is the unpacked root that its sandboxes share. With it go all sandboxes in it, and everything
    that they and runsc kept. `image` is the reference of the image `gvisor`, `environment` that of the
    engine's client in place of ours; `granted` is for measuring. The network is none or the host's: a proxy
    comes with `sandwright run`, as do guards for protected names that don't exist yet; Git's directories that
    need those are read-only instead. Raise HostError when the container can't be started, RenderError like
    rendering.
    """
    name, container = policy.gvisor_engine, f"{PREFIX}{uuid.uuid4().hex}"
    with scratch_directory() as scratch, record_directory(name, container):
        client_env = {
            **runtime_environment(),
            **client_environment(),
            **engine_backend(name).settings(collect_host()),
        }
        environment = client_env if environment is None else environment
        program = shutil.which(name, path=environment.get("PATH")) or process.which(name)
        engine = EngineClient(name, environment, program=program)
        options = (
            f"--label={LABEL}=outer-{container}",
            *_outer_run_options(policy, rootfs, hidden_directory(scratch), granted),
        )
        started = engine.run_detached(container, options, image, SESSION, "idle")
        try:
            if not started:
                raise HostError(f"{name} cannot start gVisor's container: {started.stderr.strip()}")
            yield OuterContainer(engine, container)
        finally:
            engine.remove_container(container, check=False)


_KEEP_ID = "--userns=keep-id"
"""The option that a Podman without root needs, and one with root refuses."""


def own_limits() -> Iterator[str]:
    """Options that set the caller's limits. By default Podman needs CAP_SYS_RESOURCE for higher ones."""
    for name, kind, most in (
        ("nproc", resource.RLIMIT_NPROC, 32768),
        ("nofile", resource.RLIMIT_NOFILE, 1 << 20),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(hard, most)
        yield f"--ulimit={name}={limit}:{limit}"


def _outer_run_options(
    policy: ResolvedPolicy, rootfs: Path, hidden: Path, granted: Grant | None
) -> Iterator[str]:
    options = outer_options(policy, granted=granted)
    for name, content in options.files.items():
        (hidden / name).write_bytes(content)
        (hidden / name).chmod(0o644)
    (hidden / "nothing").touch(mode=0o444)
    yield f"--security-opt=seccomp={hidden}/seccomp.json"
    root = os.geteuid() == 0
    yield from (word for word in options.words if not (root and word == _KEEP_ID))
    if policy.gvisor_engine == "podman":
        yield from own_limits()
    yield mount_argument("type=bind", "readonly", f"src={rootfs}", "dst=/sandwright/rootfs")
    for name in options.files.keys() - {"seccomp.json"}:
        yield mount_argument("type=bind", "readonly", f"src={hidden}/{name}", f"dst=/sandwright/{name}")
    for path in options.hidden:
        yield mount_argument("type=bind", "readonly", f"src={hidden}/nothing", f"dst={path}")
