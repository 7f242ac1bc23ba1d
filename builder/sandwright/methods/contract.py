"""A method: its properties, the parts that render, read back and start it, and the Protocol of a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from sandwright import lazy
from sandwright.errors import HostError, RenderError
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.host import MachineFacts
from sandwright.inputs import LiveHost
from sandwright.methods.properties import Answers, Properties
from sandwright.policy.declaration import Declaration
from sandwright.policy.names import GvisorEngine
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.questions import Question
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import Rendered

Notify = Callable[[str], None]
"""Shows the user one line."""


def quiet(_: str) -> None:
    """Discard the line."""


@dataclass(frozen=True)
class Parts:
    """The parts of a method, each as `module:attribute`; an empty string for a part it does not have.

    A part is imported when it is first used. Most commands use a few parts of one method.
    """

    declaration: str = ""
    render: str = ""
    read_back: str = ""
    read_others: str = ""
    backend: str = ""
    expected: str = ""

    def load(self, part: str) -> Any:  # noqa: ANN401 - a test loads each, and looks at its type
        """Import a part by its field name. Raise ImportError or AttributeError if that fails."""
        return lazy.load(getattr(self, part))


@dataclass
class Method:
    """One method: its properties, its parts, and its variants by name.

    A third-party method is an instance as well. It names its parts or overrides the functions below.
    """

    properties: Properties
    parts: Parts
    variants: Mapping[str, MethodVariant] = field(default_factory=dict)

    def declare(self) -> Declaration:
        """The features of a policy that the method enforces, and how completely."""
        declaration: Declaration = self.parts.load("declaration")
        return declaration

    def make_artifacts(self, policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        """Render the artifacts for a policy; the artifact `launch` starts a sandbox. A pure function.

        Raise RenderError for a policy that the artifacts cannot express.
        """
        artifacts: tuple[Artifact, ...] = self.parts.load("render")(policy)
        return artifacts

    def read_artifacts(self, rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:
        """Parse the artifacts as their consumers do, and return the access that they allow.

        Raise RenderError if the method has no reader.
        """
        if not self.parts.read_back:
            raise RenderError(f"{rendered.method} can be rendered, but its artifacts cannot be read back")
        sandbox: ReadBack = self.parts.load("read_back")(rendered, policy)
        return sandbox

    def read_others(self, rendered: Rendered, policy: ResolvedPolicy) -> Sequence[ReadBack]:
        """The sandboxes that other tools, such as Compose, start from the artifacts."""
        if not self.parts.read_others:
            return ()
        sandboxes: Sequence[ReadBack] = self.parts.load("read_others")(rendered, policy)
        return sandboxes

    def make_backend(self) -> Backend | None:
        """The backend that starts sandboxes on this machine; None if they run elsewhere."""
        backend: Backend | None = self.parts.load("backend")() if self.parts.backend else None
        return backend

    def expect(self) -> Mapping[str, Answers]:
        """The expected answers of probes that differ from those of other methods, by claim."""
        answers: Mapping[str, Answers] = self.parts.load("expected") if self.parts.expected else {}
        return answers


@dataclass(frozen=True)
class MethodVariant:
    """A variant of a method, with a name that a policy cannot use as its `method`.

    `engine` is the value of `gvisor.engine` that selects the variant, `none` if no value does. Missing parts
    are those of the method, except for `backend` and `read_back`: a variant without a backend is only
    rendered, and artifacts that it renders itself are read back by its own reader or not at all. A variant
    with `fallback` is used if the method itself does not start; the text describes the difference. Expected
    answers of the variant take precedence over those of the method.
    """

    parts: Parts
    engine: GvisorEngine = "none"
    fallback: str = ""


class NoAccount(HostError):
    """The project has no account on this machine. The message names the command that creates one."""


Code = Literal[
    "ready",
    "wrong-system",
    "program-missing",
    "namespaces-off",
    "namespaces-restricted",
    "container-masks",
    "container-filter",
    "kernel-lacks",
    "daemon-dead",
    "no-permission",
    "image-missing",
    "cgroups",
    "no-root",
    "hangs",
    "not-started",
    "not-denied",
]
"""The result of a preflight: `ready`, or the reason why the method does not work on this machine.

- `wrong-system`: the method belongs to another operating system.
- `program-missing`: a program is not installed.
- `namespaces-off`, `namespaces-restricted`: user namespaces are disabled, or restricted by a
  security module (AppArmor).
- `container-masks`, `container-filter`: this process runs in a container that prevents it, by masked paths
  of /proc or by its seccomp profile.
- `kernel-lacks`: the kernel lacks a feature.
- `daemon-dead`, `no-permission`: the engine does not answer, or refuses this user.
- `image-missing`: the image is not built or not loaded.
- `cgroups`: the cgroup hierarchy is not usable.
- `no-root`: the method needs root.
- `hangs`: the sandbox did not end within the time limit.
- `not-started`: the sandbox failed for another reason.
- `not-denied`: the sandbox started, but a file that it should hide was readable.
"""

CODES: tuple[Code, ...] = get_args(Code)

LIMIT = 20.0
"""Time limit of the preflight sandbox, in seconds."""


@dataclass(frozen=True)
class Preflight:
    """The result of starting a real sandbox of a method.

    `message` describes the problem, `remedy` the solution. Both are usually empty for `ready`. `runtime` is
    the version of the runtime if it can only change together with an answer to `Backend.depends`; otherwise
    it is empty, and callers use `Backend.runtime_version`.
    """

    method: str
    code: Code
    message: str = ""
    remedy: str = ""
    runtime: str = ""

    @property
    def ready(self) -> bool:
        """Whether the method works on this machine."""
        return self.code == "ready"

    def describe(self) -> str:
        """One line for the user: method, problem and remedy."""
        what = f"{self.method}: {self.message or self.code}"
        return f"{what}; {self.remedy}" if self.remedy else what


@dataclass(frozen=True)
class Leftover:
    """An object that a session left behind.

    `kind` is container, process, mount, directory, file or state; `name` identifies the object for
    `Backend.remove`. `session` is empty if its session is unknown.
    """

    method: str
    kind: str
    name: str
    session: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.kind} {self.name}"


Terminal = Literal["passed", "controlling", "taken"]
"""The terminal that a launcher gets from an interactive session.

`passed`: the user's terminal, because engines create another one behind it. `controlling`: a new
pseudo-terminal that is the launcher's controlling terminal. `taken`: a new one that the command makes its
controlling terminal."""

Delivery = Literal["", "sent", "killed"]
"""The result of a signal: no receiver yet, sent, or killed because the signal would end the command."""


class RemoteCanary(Protocol):
    """A TCP listener on the network of sandboxes that run on another machine."""

    @property
    def address(self) -> str:
        """The IP address on that network."""
        ...

    @property
    def port(self) -> int:
        """The TCP port."""
        ...

    def first_word(self, control: str) -> str:
        """The first data that the listener received, after a client without a policy has sent `control`.

        Raise SandwrightError if the client could not connect.
        """
        ...


class Backend(Protocol):
    """Runs sandboxes of one method on this machine."""

    @property
    def name(self) -> str:
        """The name of the method in a policy."""
        ...

    @property
    def terminal(self) -> Terminal:
        """The terminal that the launcher gets from an interactive session."""
        ...

    def depends(self, host: MachineFacts) -> Iterable[Question]:
        """Questions about this machine. A preflight result is valid until an answer changes."""
        ...

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start a real sandbox within `limit` seconds that tries to read a hidden file."""
        ...

    def wrap(self, directory: Path, argv: Sequence[str], *, terminal: bool = False) -> tuple[str, ...]:
        """The command line that runs `argv` in the sandbox with the artifacts in `directory`.

        `terminal`: standard input and output are a pseudo-terminal of the session.
        """
        ...

    def environment(
        self, policy: ResolvedPolicy, inputs: LiveHost | None = None, *, notify: Notify = quiet
    ) -> Mapping[str, str]:
        """Additional environment variables of the launcher, such as the directory of the unpacked image.

        `inputs` records the questions to the host. `notify` receives a line before a step that takes seconds.
        Raise HostError, with the command that helps, if a requirement is missing.
        """
        ...

    def send_signal(self, launcher: int, number: int) -> Delivery:
        """Send a signal to the command of a launcher, which is given by its process ID."""
        ...

    def leftovers(self, running: Iterable[str]) -> Iterable[Leftover]:
        """Find objects that ended sessions left behind. `running` are the IDs of sessions to ignore."""
        ...

    def remove(self, leftover: Leftover) -> None:
        """Remove one object that `leftovers` found. Raise SandwrightError if it remains."""
        ...

    def canary(self, policy: ResolvedPolicy) -> AbstractContextManager[RemoteCanary | None]:
        """A context with a listener where the policy's sandboxes run; None if they run on this machine.

        Raise SandwrightError.
        """
        ...

    def purge(self, policy: ResolvedPolicy) -> None:
        """Remove objects that runs of a policy keep for the next run, if this user has permission."""
        ...

    def owner(self, policy: ResolvedPolicy) -> int:
        """The user ID on the host that owns files created in the sandbox. Raise NoAccount."""
        ...

    def without_image(self) -> Preflight | None:
        """The preflight result if the default image is missing, else None."""
        ...

    def runtime_version(self, host: MachineFacts) -> str:
        """The version string of the runtime; empty if the method has none."""
        ...
