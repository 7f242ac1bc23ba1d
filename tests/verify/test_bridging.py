"""How a sandbox is asked that runs with a bridge."""

from __future__ import annotations

from pathlib import Path

from sandwright.runtime.probe.protocol import NO_ANSWER, attempt
from sandwright.verify.bridging import _talking
from sandwright.verify.sandbox import RenderedSandbox


def test_what_a_launcher_says_that_starts_nothing_is_told(tmp_path: Path) -> None:
    launch = tmp_path / "launch"
    launch.write_text("#!/bin/sh\necho why not >&2\nexit 125\n")
    launch.chmod(0o755)
    with _talking(RenderedSandbox("it", launch, Path("/bin/true"), {})) as talk:
        assert talk.said() == ""
        assert talk.ask([attempt("echo", "alive")]) == [NO_ANSWER]
        assert talk.said() == "why not"
