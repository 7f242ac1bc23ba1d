"""Starts containers of an engine, Docker or Podman, through its command line."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sandwright import process
from sandwright.engines.archive import empty_image
from sandwright.engines.client import EngineClient, client_environment, client_with
from sandwright.errors import HostError, SandwrightError
from sandwright.host import MachineFacts, collect_host
from sandwright.inputs import LiveHost
from sandwright.methods.contract import LIMIT, Code, Leftover, Notify, Preflight, quiet
from sandwright.methods.shared.engine.loading import load_built
from sandwright.methods.shared.images import default_image, how_to_build, why_missing
from sandwright.methods.shared.launched import Launched
from sandwright.methods.shared.rundirs import abandoned_directories
from sandwright.methods.shared.trial import IMAGE_ROOT, judged, try_out
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.questions import Question
from sandwright.runtime.trial import Failed
from sandwright.setup.requirements import how_to_get

LABEL = "sandwright.session"
"""The label of every container and network that a launcher makes: the session, or a random number."""

PREFIX = "sandwright-"
"""The prefix of containers' names."""

INSIDE = "-inside"
"""The suffix of the network with only a sandbox and its proxy, after the sandbox's name."""

PROXY = "-proxy"
"""Likewise that of the proxy's container."""

ASKING = 10.0
"""Seconds for a question to an engine."""


@dataclass(frozen=True)
class EngineBackend(Launched):
    """A method whose launcher is a client of an engine.

    `package` is the package to install if the client is missing.
    """

    package: ClassVar[str]

    def client(self) -> EngineClient:
        """The client, with the variables that it needs on this machine."""
        return client_with(self.name, self.settings(collect_host()))

    def programs(self) -> Sequence[str]:
        """The program of the client."""
        return (self.name,)

    def depends(self, host: MachineFacts) -> Iterator[Question]:
        """The questions of every backend, and those about the engine's address."""
        yield from super().depends(host)
        yield "variable", "DOCKER_HOST"
        yield "variable", "CONTAINER_HOST"

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Give the engine an image of empty directories, and start that."""
        if self.name not in host.programs:
            get = how_to_get(self.package, host.package_manager)
            return Preflight(
                self.name, "program-missing", f"{self.name} is not installed", get and f"get it with: {get}"
            )
        if dead := self.dead():
            return dead
        try:
            with empty_image(EngineClient(self.name), host.platform, purpose="preflight") as image:
                environment = {**client_environment(), **self.settings(host)}
                failed = try_out(self, IMAGE_ROOT, limit=limit, image=image, environment=environment)
        except SandwrightError as error:
            failed = Failed("not-started", _telling(str(error)))
        return judged(self.name, failed, lambda failed: self.explained(failed, host))

    def without_image(self) -> Preflight | None:
        """The fault if neither the engine nor a build has a policy's default image."""
        if not (message := why_missing(image := default_image())):
            return None
        if self.client().image_id(f"sandwright/{image}:latest", timeout=ASKING):
            return None
        return Preflight(
            self.name,
            "image-missing",
            f"{message}, nor in {self.name}",
            how_to_build(image, collect_host().platform),
        )

    def runtime_version(self, host: MachineFacts) -> str:
        """The version of the runtime behind the engine."""
        return client_with(self.name, self.settings(host)).runtime_version(timeout=ASKING)

    def settings(self, host: MachineFacts) -> Mapping[str, str]:  # noqa: ARG002
        """Variables that the client needs on this machine."""
        return {}

    def environment(
        self, policy: ResolvedPolicy, inputs: LiveHost | None = None, *, notify: Notify = quiet
    ) -> Mapping[str, str]:
        """The variables of the client.

        Images that were built here are loaded into the engine if it lacks them.
        """
        load_built(self.client(), policy, inputs or LiveHost(), notify=notify)
        return self.settings(collect_host())

    def dead(self) -> Preflight | None:
        """The fault if no engine answers, else None."""
        return None

    def explained(self, failed: Failed, host: MachineFacts) -> tuple[Code, str, str]:  # noqa: ARG002
        """The cause of a failed start, and the remedy."""
        message = failed.output
        if "cgroup" in message:
            return "cgroups", message, "give the engine a cgroup hierarchy that it can use"
        return "not-started", message, ""

    def leftovers(self, running: Iterable[str]) -> Iterator[Leftover]:  # noqa: ARG002 - by directories
        """Leftovers of runs without a launcher, in the order in which they can be removed.

        A run is known by its directory, which only its launcher makes; any user of the engine can set labels
        and names of containers. Raise SandwrightError when no engine answers.
        """
        gone = list(abandoned_directories(self.name))
        if not gone or process.find(self.name) is None:
            return
        runs = {directory.name for directory in gone}
        client = EngineClient(self.name)
        for name, session in client.containers(LABEL, timeout=ASKING).items():
            if name.removesuffix(PROXY) in runs:
                yield Leftover(self.name, "container", name, session)
        for name in client.networks(LABEL, timeout=ASKING):
            if name.removesuffix(INSIDE) in runs:
                yield Leftover(self.name, "network", name)
        for directory in gone:
            yield Leftover(self.name, "directory", str(directory))

    def remove(self, leftover: Leftover) -> None:
        """Remove a container, network or directory of ours. Raise CommandFailed when the engine does not.

        A directory stays as long as a container of its run is there: raise HostError.
        """
        name = Path(leftover.name).name
        gone = {directory.name: directory for directory in abandoned_directories(self.name)}
        if name.removesuffix(PROXY).removesuffix(INSIDE) not in gone:
            raise HostError(f"{leftover} is not ours")
        if leftover.kind == "network":
            EngineClient(self.name).remove_network(name)
        elif leftover.kind == "directory":
            self._require_ended(name)
            self.end_unknown(gone[name])
            shutil.rmtree(gone[name])
        else:
            EngineClient(self.name).remove_container(name)

    def _require_ended(self, run: str) -> None:
        """Raise HostError while a run has a container: later runs know of it only by its directory."""
        there = EngineClient(self.name).containers(LABEL, timeout=ASKING)
        if run in {each.removesuffix(PROXY) for each in there}:
            raise HostError(f"the directory of {run} stays, because a container of it goes on")

    def end_unknown(self, directory: Path) -> None:
        """End processes of a run's client that the engine does not know; by default there are none."""


def _telling(message: str) -> str:
    """The line of a client's output that has the error; after it some clients point to their help."""
    lines = [line for line in message.splitlines() if line.strip() and "--help" not in line]
    return lines[-1] if lines else message
