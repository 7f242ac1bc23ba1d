"""The questions to every method's artifacts, and their answers: the gate has thousands for each rendering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sandwright.documents.document import Document, Path, field_name
from sandwright.policy.explain import Question


class Asked(NamedTuple):
    """One question, in the one spelling of its subject.

    `path` is the subject of read, write and exec, and of connect to a Unix socket: canonical; `links` are the
    links that lead there, and with `image` it is denied of an image's files too. `host` and `port` are those
    of connect, `port` that of listen. `name` is the variable of env and the call of syscall, `arguments` are
    the call's, None when none were given. A request has a host and port, its method as `name`, `target`,
    and for an MCP server the `call` that its message is.
    """

    kind: Question
    subject: str
    path: str = ""
    links: tuple[str, ...] = ()
    image: bool = False
    host: str = ""
    port: int = 0
    name: str = ""
    arguments: tuple[int, ...] | None = None
    target: str = ""
    call: str = ""


@dataclass(frozen=True)
class ArtifactPosition:
    """Something in an artifact: `text` is the rule itself. `line` and `column` are 0 where it has none."""

    artifact: str
    text: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """`profile.sb:120:1: (allow …)`."""
        where = f"{self.artifact}:{self.line}:{self.column}" if self.line else self.artifact
        return f"{where}: {self.text}" if self.text else where


BY_RUN = "`sandwright run` reads the messages; no artifact decides"


def position_in(document: Document, path: Path, text: str, *, below: Path = ()) -> ArtifactPosition:
    """The position of a value in a document; its rule is named from `below` on."""
    line, column = document.position((*below, *path))
    return ArtifactPosition(document.file, f"{field_name(path)}: {text}", line, column)


def words_in(content: bytes) -> list[str]:
    """The words of an artifact that has a NUL behind each."""
    return content.decode("utf-8", "surrogateescape").split("\0")[:-1]


IS_SET = "it is set"
"""The reason for a variable that the policy sets."""


class MethodVerdict(NamedTuple):
    """The decision of an artifact.

    `allowed` is None when it decides nothing of this kind, and `because` says why. `position` is the
    deciding rule; `target` the path of the host that it is about, by which the policy's own rule is found.
    """

    allowed: bool | None
    because: str
    position: ArtifactPosition | None = None
    target: str = ""
