"""A run that is recorded: what programs inside ask for, and what its proxy was asked.

The launcher writes `file` when all has ended; nothing inside can reach it (`launcher/source/record.c`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandwright.egress.log import ProxyDecision


class Recording:
    """What is recorded of a run. `calls` are numbers of system calls, beside those with paths.

    `looks`: calls that only look at what is there, such as stat(2), are recorded too.
    `decisions` are the proxy's, once the run has ended.
    """

    __slots__ = ("calls", "decisions", "file", "looks")

    def __init__(self, file: str, calls: tuple[int, ...] = (), *, looks: bool = True) -> None:
        """`file` must not be there yet."""
        self.file = file
        self.calls = calls
        self.looks = looks
        self.decisions: list[ProxyDecision] = []

    def environment(self) -> dict[str, str]:
        """The launcher's variables."""
        calls = ",".join(map(str, self.calls))
        uses = {} if self.looks else {"SANDWRIGHT_RECORD_USES": "1"}
        return {"SANDWRIGHT_RECORD": self.file, "SANDWRIGHT_RECORD_CALLS": calls, **uses}
