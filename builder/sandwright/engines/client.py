"""The command line that `docker` and `podman` share, as methods and proofs use it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from sandwright import process, user_dirs
from sandwright.engines.contract import WriteArchive, streaming

SHORT = 60.0
"""Seconds for a question: where much else runs, Podman without root takes more than 20."""

LOADING = 300.0

_LABEL = {"docker": '.Label "{}"', "podman": 'index .Labels "{}"'}
_RUNTIME_VERSION = {
    "docker": ("version", "--format", "{{range .Server.Components}}{{.Name}} version {{.Version}}\n{{end}}"),
    "podman": ("info", "--format", "{{.Host.OCIRuntime.Version}}"),
}


_CLIENT = (
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    "CONTAINER_HOST",
)
"""Variables by which a client finds its engine."""


@dataclass(frozen=True)
class EngineClient:
    """The client of an engine. `environment` is its whole environment, absent ours.

    `options` go before every command; `program` is the path of the client, absent the first on PATH.
    """

    name: str
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    options: Sequence[str] = ()
    program: str = ""

    def argv(self, *words: str) -> list[str]:
        """The command line of a command."""
        return [self.program or self.name, *self.options, *words]

    def ask(
        self,
        *words: str,
        timeout: float = SHORT,
        check: bool = True,
        stdin: bytes | IO[bytes] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> process.Result:
        """Run a command to its end. `variables` are added to the environment. Raise as `process.run`."""
        env = {**(self.environment or our_environment()), **variables} if variables else self.environment
        return process.run(*self.argv(*words), timeout=timeout, check=check, stdin=stdin, env=env)

    def ping(self, *, timeout: float = SHORT) -> None:
        """Ask the engine's daemon for its version. Raise CommandFailed when it does not answer."""
        self.ask("version", "--format", "{{.Server.Version}}", timeout=timeout)

    def runtime_version(self, *, timeout: float = SHORT) -> str:
        """The version of the OCI runtime, or of the daemon's parts; empty when the engine doesn't answer."""
        return self.ask(*_RUNTIME_VERSION[self.name], timeout=timeout, check=False).text

    def runtime_path(self, *, timeout: float = SHORT) -> str:
        """The path of Podman's OCI runtime; empty when Podman doesn't answer."""
        words = ("info", "--format", "{{.Host.OCIRuntime.Path}}")
        return self.ask(*words, timeout=timeout, check=False).text

    def image_id(self, reference: str, *, timeout: float = SHORT) -> str:
        """The id of an image, without `sha256:`; empty when the engine doesn't have it.

        Engines name an image by the digest of its configuration or by that of its manifest.
        """
        words = ("image", "inspect", "--format", "{{.Id}}", reference)
        found = self.ask(*words, timeout=timeout, check=False)
        return found.text.removeprefix("sha256:") if found else ""

    def load_archive(self, write: WriteArchive, reference: str, *, timeout: float = LOADING) -> str:
        """Load an image; give the client's output. Raise CommandFailed, and the errors of `write`.

        Podman copies the archive into $TMPDIR, which a sandbox may share, and reads it from there.
        """
        hidden = {"TMPDIR": user_dirs.scratch()}
        with streaming(lambda sink: write(sink, reference)) as archive:
            return self.ask("load", "--quiet", stdin=archive, timeout=timeout, variables=hidden).text

    def save_stream(self, image: str) -> Generator[bytes, None, None]:
        """An image as an archive in the format of `docker save`, as the client writes it."""
        with process.start(*self.argv("save", image), env=self.environment) as saving:
            assert saving.stdout is not None
            while data := saving.stdout.read(1 << 20):
                yield data

    def untag(self, reference: str) -> None:
        """Remove a name of an image, and the image with its last one; no error when there is none."""
        self.ask("rmi", "--force", reference, check=False)

    def containers(self, label: str, *, running: bool = False, timeout: float = SHORT) -> dict[str, str]:
        """The containers with a label, `KEY` or `KEY=VALUE`: their names, and the label's value."""
        query = _LABEL[self.name].format(label.partition("=")[0])
        words = ("--filter", f"label={label}", "--format", f"{{{{.Names}}}}\t{{{{{query}}}}}")
        listed = self.ask("ps", *(() if running else ("--all",)), *words, timeout=timeout).text
        return dict(line.split("\t", 1) for line in listed.splitlines() if "\t" in line)

    def networks(self, label: str, *, timeout: float = SHORT) -> list[str]:
        """The names of the networks with a label."""
        words = ("--filter", f"label={label}", "--format", "{{.Name}}")
        return self.ask("network", "ls", *words, timeout=timeout).text.splitlines()

    def remove_network(self, name: str) -> None:
        """Raise CommandFailed when it can't be removed."""
        self.ask("network", "rm", name)

    def remove_container(self, name: str, *, check: bool = True) -> None:
        """Kill and remove a container with its volumes. Raise CommandFailed when it can't be removed."""
        self.ask("rm", "--force", "--volumes", name, check=check)

    def run_detached(self, name: str, options: Iterable[str], image: str, *command: str) -> process.Result:
        """Start a container that stays; give the client's result."""
        return self.ask("run", "--detach", f"--name={name}", *options, image, *command, check=False)

    def exec(
        self,
        container: str,
        *command: str,
        options: Sequence[str] = (),
        stdin: bytes | None = None,
        variables: Mapping[str, str] | None = None,
        timeout: float = SHORT,
    ) -> process.Result:
        """Run a command in a container; give its result, which is falsy unless the status is 0."""
        interactive = ("--interactive",) if stdin is not None else ()
        words = ("exec", *interactive, *options, container, *command)
        return self.ask(*words, stdin=stdin, variables=variables, check=False, timeout=timeout)

    def first_process(self, container: str) -> int:
        """The PID of a container's first process; 0 if there is none."""
        found = self.ask("inspect", "--format", "{{.State.Pid}}", container, check=False).text
        return int(found) if found.isdigit() else 0


def client_environment() -> dict[str, str]:
    """The variables of our environment by which a client finds its engine."""
    return {name: os.environ[name] for name in _CLIENT if name in os.environ}


def our_environment() -> dict[str, str]:
    """Our environment, with a PATH that no sandbox can write to."""
    return {**os.environ, "PATH": process.search_path()}


def client_with(name: str, settings: Mapping[str, str]) -> EngineClient:
    """The client of an engine, with settings besides our environment."""
    return EngineClient(name, {**our_environment(), **settings} if settings else None)
