"""The way out of a sandbox with `network.mode: proxy`: one squid a session, and one port that leads to it.

    from sandwright.egress import proxy

    with proxy(policy, log=session / "egress.jsonl") as running:
        with handed_over(RunDocument(egress=str(running.directory))) as file:
            process.run(*with_document((launcher, *command), file), pass_fds=(file,))

`proxy(policy)` starts squid with the configuration that `sandwright.render.proxy` makes of the policy, waits
until it answers, and yields a `Proxy`:

- `host`, `port`, `url`: where it listens, on this machine's loopback only.
- `directory`: where a native launcher asks for the way in (`launcher.run_document`).
- `environment`: the variable that a launcher on macOS needs, to be added to *its* environment, not the
  sandbox's: `SANDWRIGHT_PROXY_PORT`.
- `log`: its decisions during the run, one JSON object per line; `decisions()` reads it. After the end it is
  kept at the path of `log=`, and removed without one.
- `alive`: whether it still runs. A sandbox whose proxy ended has no network; nothing falls back.

At every end of the `with`, even after kill -9 of this process, squid and its helper processes have ended, and
its directory is removed. Raise ToolMissing without squid, HostError if it cannot be started as rendered, and
UsageError unless `network.mode` is `proxy`. One proxy serves any number of launches, also at the same time.

`methods/registry.py:proxy_starter` decides whether the session starts the proxy of a policy, or the launcher
of an engine, as a container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandwright.lazy import load

if TYPE_CHECKING:
    from sandwright.egress.log import ProxyDecision, decisions
    from sandwright.egress.plan import proxy
    from sandwright.egress.start import Proxy

__all__ = ["Proxy", "ProxyDecision", "decisions", "proxy"]

_HOMES = {"Proxy": "start", "ProxyDecision": "log", "decisions": "log", "proxy": "plan"}


def __getattr__(name: str) -> object:
    """Import the public names at their first use: a session needs few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f".{_HOMES[name]}:{name}", __name__)
