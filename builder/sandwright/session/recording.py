"""Records a run: the accesses of programs inside, and the requests to its proxy.

The launcher writes `file` at the end; nothing inside can access it (`launcher/source/record.c`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandwright.egress.log import ProxyDecision
    from sandwright.egress.request_log import RequestDecision


@dataclass(slots=True)
class Recording:
    """The recording of a run. `calls` are numbers of system calls, beside those with paths.

    `looks`: calls that only inspect a path, such as stat(2), are recorded too. `decisions` are the proxy's,
    and `requests` the inspecting proxy's, once the run has ended.
    """

    file: str
    """It must not be there yet."""
    calls: tuple[int, ...] = ()
    looks: bool = field(default=True, kw_only=True)
    decisions: list[ProxyDecision] = field(default_factory=list, kw_only=True)
    requests: list[RequestDecision] = field(default_factory=list, kw_only=True)
