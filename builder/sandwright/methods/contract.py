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
"""Tells a person one line."""


def quiet(_: str) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class Parts:
    """Where the parts of a method are, each as `module:attribute`; empty where there is none.

    A part is imported when it is first needed: most starts need few, and of one method.
    """

    declaration: str = ""
    render: str = ""
    read_back: str = ""
    read_others: str = ""
    backend: str = ""
    expected: str = ""

    def load(self, part: str) -> Any:  # noqa: ANN401 - a test loads each, and looks at its type
        """A part by its field's name. Raise ImportError or AttributeError where it can't be imported."""
        return lazy.load(getattr(self, part))


@dataclass
class Method:
    """One method: its properties, its parts, and its variants by name.

    A method of another distribution is one, too. It names its parts, or overrides the functions below.
    """

    properties: Properties
    parts: Parts
    variants: Mapping[str, MethodVariant] = field(default_factory=dict)

    def declare(self) -> Declaration:
        """Which features of a policy it can enforce, and how well."""
        declaration: Declaration = self.parts.load("declaration")
        return declaration

    def make_artifacts(self, policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        """The artifacts for a policy, of which `launch` starts a sandbox. Pure.

        Raise RenderError for a policy that they can't express.
        """
        artifacts: tuple[Artifact, ...] = self.parts.load("render")(policy)
        return artifacts

    def read_artifacts(self, rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:
        """What its artifacts allow, read back as their consumers read them.

        Raise RenderError where nothing reads them.
        """
        if not self.parts.read_back:
            raise RenderError(f"{rendered.method} is rendered, but not read back yet")
        sandbox: ReadBack = self.parts.load("read_back")(rendered, policy)
        return sandbox

    def read_others(self, rendered: Rendered, policy: ResolvedPolicy) -> Sequence[ReadBack]:
        """What its artifacts make other tools start than the launcher, such as Compose."""
        if not self.parts.read_others:
            return ()
        sandboxes: Sequence[ReadBack] = self.parts.load("read_others")(rendered, policy)
        return sandboxes

    def make_backend(self) -> Backend | None:
        """The backend that starts its sandboxes here; None where they run elsewhere."""
        backend: Backend | None = self.parts.load("backend")() if self.parts.backend else None
        return backend

    def expect(self) -> Mapping[str, Answers]:
        """The answers of probes that differ from those of other methods, by claim."""
        answers: Mapping[str, Answers] = self.parts.load("expected") if self.parts.expected else {}
        return answers


@dataclass(frozen=True)
class MethodVariant:
    """Another sandbox of a method under its own name, which no policy can give as its `method`.

    `engine` is the value of the policy's field that asks for it, `none` where nothing does. A part that it
    lacks is the method's, but for the backend: without one it is only rendered. Artifacts of its own are read
    back by `read_back` of its own, or not at all. One with `fallback` is taken where the method itself does
    not start; the text says how it differs. Its expected answers come before the method's.
    """

    parts: Parts
    engine: GvisorEngine = "none"
    fallback: str = ""


class NoAccount(HostError):
    """A project has no account here, and the message says what makes one."""


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
"""What a preflight found. All but `ready` say why the method can't be taken:

`wrong-system` it is another system's; `program-missing`; `namespaces-off` user namespaces are switched off;
`namespaces-restricted` AppArmor restricts them; `container-masks`, `container-filter` the container that we
are in keeps them from us, by what lies over its /proc or by its seccomp profile; `kernel-lacks` the kernel
lacks what it is made of; `daemon-dead` no engine answers; `no-permission` it turns this user away;
`image-missing`; `cgroups` the control groups are not as it needs them; `no-root` it needs root;
`hangs` it did not end within its time; `not-started` it failed in another way; `not-denied` it started, and
what it should hide was read.
"""

CODES: tuple[Code, ...] = get_args(Code)

LIMIT = 20.0
"""Seconds that the sandbox of a preflight may take."""


@dataclass(frozen=True)
class Preflight:
    """What starting a real sandbox of a method showed.

    `message` says what was found, `remedy` how to change it; both are empty for `ready`, unless there is
    something to say about it all the same. `runtime` is what the runtime behind it said of its version, where
    that stays while what the method depends on does; else it has to be asked (`Backend.runtime_version`).
    """

    method: str
    code: Code
    message: str = ""
    remedy: str = ""
    runtime: str = ""

    @property
    def ready(self) -> bool:
        """Whether the method can be taken."""
        return self.code == "ready"

    def describe(self) -> str:
        """One line for a person: method, what, and the way out."""
        what = f"{self.method}: {self.message or self.code}"
        return f"{what}; {self.remedy}" if self.remedy else what


@dataclass(frozen=True)
class Leftover:
    """Something that a session left behind.

    `kind` says what (container, process, mount, directory, file, state), `name` which, as `remove` of its
    method understands it. `session` is empty when it can't be told whose it was.
    """

    method: str
    kind: str
    name: str
    session: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.kind} {self.name}"


Terminal = Literal["passed", "controlling", "taken"]
"""What a launcher gets from a session on a terminal: `passed` that terminal itself, as engines make one of
their own behind it; `controlling` a new one that it controls; `taken` a new one that its command takes
control of."""

Delivery = Literal["", "sent", "killed"]
"""What became of a signal: nobody is there yet; it was sent; the command would die of it, and was killed."""


class RemoteCanary(Protocol):
    """A listener on the network where sandboxes run that don't run here: at an address and a TCP port."""

    @property
    def address(self) -> str:
        """Its IP address there."""
        ...

    @property
    def port(self) -> int:
        """Its port."""
        ...

    def first_word(self, control: str) -> str:
        """What was said there first, after something without a policy has come and said `control`.

        Raise SandwrightError where nothing could come.
        """
        ...


class Backend(Protocol):
    """A method that runs sandboxes here."""

    @property
    def name(self) -> str:
        """What a policy calls it."""
        ...

    @property
    def terminal(self) -> Terminal:
        """What its launcher gets when a session is on a terminal."""
        ...

    def depends(self, host: MachineFacts) -> Iterable[Question]:
        """Questions to this machine: while the answers stay, so does what preflight found."""
        ...

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start a real sandbox, within `limit` seconds, and have it read what it must not see."""
        ...

    def wrap(self, directory: Path, argv: Sequence[str], *, terminal: bool = False) -> tuple[str, ...]:
        """The command line that runs `argv` in the sandbox whose artifacts lie in `directory`.

        `terminal`: its standard input and output are a terminal of its own.
        """
        ...

    def environment(
        self, policy: ResolvedPolicy, inputs: LiveHost | None = None, *, notify: Notify = quiet
    ) -> Mapping[str, str]:
        """Variables that the launcher needs beside the caller's, such as where the image is unpacked.

        `inputs` keeps what was asked of the host to find them; `notify` is told what takes seconds. Raise
        HostError, with the command that helps, when something of it is not there.
        """
        ...

    def send_signal(self, launcher: int, number: int) -> Delivery:
        """Send a signal to the command that a launcher (its process id) runs."""
        ...

    def leftovers(self, running: Iterable[str]) -> Iterable[Leftover]:
        """What sessions left behind. `running` are the ids of those that still run, whose things stay."""
        ...

    def remove(self, leftover: Leftover) -> None:
        """Remove one thing that `leftovers` named. Raise SandwrightError when it stays."""
        ...

    def canary(self, policy: ResolvedPolicy) -> AbstractContextManager[RemoteCanary | None]:
        """A listener for the length of a `with` where a policy's sandboxes run; None where that is here.

        Raise SandwrightError.
        """
        ...

    def purge(self, policy: ResolvedPolicy) -> None:
        """Remove what runs of a policy leave where they run for the next one, as far as we may."""
        ...

    def owner(self, policy: ResolvedPolicy) -> int:
        """The user id on the host of what the sandbox makes. Raise NoAccount."""
        ...

    def without_image(self) -> Preflight | None:
        """What is wrong where the image that a policy has by default is not here."""
        ...

    def runtime_version(self, host: MachineFacts) -> str:
        """What the runtime behind it says of its version; empty for none."""
        ...
