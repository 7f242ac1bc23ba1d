"""Code that the runtimes with an OCI bundle on their command line share: runc, crun, runsc."""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.host import MachineFacts
from sandwright.runtime.bundles import Config, prepare, read_config, root_of
from sandwright.runtime.contract import Session, Start, Variant
from sandwright.runtime.scratch import PREFIX, hidden_directory, state_directory
from sandwright.watchdog import Ended, run_bounded

_CONTAINER = re.compile(rf"{PREFIX}[0-9a-f]{{16}}")
_LAYER = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
shift 2
exec "$@"
"""
"""Puts a layer over a root that others share, in a mount namespace that ends with the runtime."""

_REMOVAL = 30.0
"""Seconds in which a runtime must have removed a container."""


@dataclass(frozen=True)
class OciRuntime:
    """A runtime with runc's command line.

    `wrap` makes its argv of a variant and the runtime's own words; `adapt` changes a runtime configuration
    where the runtime wants another than runc does.
    """

    name: str
    variants: Callable[[MachineFacts], Sequence[Variant]]
    wrap: Callable[[Variant, Sequence[str]], Sequence[str]]
    obstacle: Callable[[MachineFacts, str], str]
    adapt: Callable[[Variant, Config], Config] = lambda _, config: config

    @property
    def program(self) -> str:
        """The program, which has the runtime's name."""
        return self.name

    @contextlib.contextmanager
    def session(
        self,
        variant: Variant,
        host: MachineFacts,  # noqa: ARG002 - a row that needs no facts here
        scratch: Path,
        stop: threading.Event,
    ) -> Iterator[Session]:
        """A session whose state and bundles are separate from those of others, and from `scratch`."""
        state = state_directory(scratch)
        state.mkdir(mode=0o700)
        (scratch / "layer").mkdir()

        def words(*command: str) -> Sequence[str]:
            return self.wrap(variant, (self.name, "--root", str(state), *variant.options, *command))

        def adapt(config: Config) -> Config:
            return self.adapt(variant, config)

        bundles = hidden_directory(scratch.parent, scratch.name)
        yield _OciSession(words, adapt, state, bundles, scratch, stop)

    def discard(self, scratch: Path, host: MachineFacts) -> None:
        """Remove the containers that the runtime has a state of."""
        state = state_directory(scratch)
        containers = {found[0] for path in state.glob("*") if (found := _CONTAINER.search(path.name))}
        for container in sorted(containers):
            for variant in self.variants(host)[:1]:
                words = (self.name, "--root", str(state), "delete", "--force", container)
                process.run(*self.wrap(variant, words), timeout=_REMOVAL, check=False)


@dataclass(frozen=True)
class _OciSession:
    words: Callable[..., Sequence[str]]
    adapt: Callable[[Config], Config]
    state: Path
    bundles: Path
    scratch: Path
    stop: threading.Event

    def run(self, start: Start) -> Ended:
        layered = start.run_as is not None
        bundle = prepare(start, self.bundles, self._on_layer if layered else self.adapt)
        try:
            command = self.words("run", "--bundle", str(bundle.directory), bundle.id)
            if layered:
                own_layer = ("unshare", "--mount", "sh", "-c", _LAYER, "sh")
                command = (*own_layer, str(self._layer_mount_point), str(_shared_root(start)), *command)
            return run_bounded(command, limit=start.limit, stop=self.stop, env=start.environment)
        finally:
            self._remove_container(bundle.id)
            shutil.rmtree(bundle.directory, ignore_errors=True)

    @property
    def _layer_mount_point(self) -> Path:
        """The mount point of a start's layer: each start mounts it in a separate mount namespace."""
        return self.scratch / "layer"

    def _on_layer(self, config: Config) -> Config:
        root = {**config["root"], "path": str(self._layer_mount_point / "root")}
        return self.adapt({**config, "root": root})

    def _remove_container(self, container: str) -> None:
        """Remove the leftovers of `run`: none when it ended by itself, a live container when we killed it."""
        if any(container in path.name for path in self.state.iterdir()):
            process.run(*self.words("delete", "--force", container), timeout=_REMOVAL)


def _shared_root(start: Start) -> Path:
    return root_of(start.subject.bundle, read_config(start.subject.bundle))


ROOTLESS = Variant("without root, with one id mapped", only_root=True)
"""The variant of runc and crun for a user who is not root. Their container's root must be that user."""


def plain_words(variant: Variant, words: Sequence[str]) -> Sequence[str]:  # noqa: ARG001
    """The runtime's own words, as they are."""
    return words


def needs_emulator(host: MachineFacts, platform: str) -> str:
    """The obstacle of a runtime that leaves programs to the kernel: it knows none of a foreign platform."""
    if host.os != "linux":
        return f"it runs on Linux only; this is {host.os}"
    if platform == host.platform or host.emulator(platform):
        return ""
    return (
        f"no interpreter for {platform} is registered in binfmt_misc with the fix-binary flag; "
        "`sandwright setup` installs and registers qemu-user-static"
    )
