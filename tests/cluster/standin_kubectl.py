"""A stand-in for kubectl and a cluster, to test `launch`: it runs the command of a Job here, in no sandbox.

It knows only the words that `launch` uses. It writes its arguments to `asked`, one list a line; `STAND_IN`
names the fault to simulate.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

STATE = Path(os.environ["STAND_IN_STATE"])
WRONG = os.environ.get("STAND_IN", "")
NAME = "made-abcde"


def main(words: list[str]) -> int:
    with (STATE / "asked").open("a") as asked:
        asked.write(json.dumps(words) + "\n")
    assert words[0] == "--namespace"
    match words[2:]:
        case ["get", "namespace", _, "-o", "name"]:
            return 1 if WRONG == "no namespace" else 0
        case ["apply", "-f", file]:
            return 1 if f"no {Path(file).name}" == WRONG else 0
        case ["rollout", "status", *_]:
            return 1 if WRONG == "no proxy" else 0
        case ["create", "-o", "name", "-f", "-"]:
            (STATE / "job").write_bytes(sys.stdin.buffer.read())
            sys.stdout.write(f"job.batch/{NAME}\n")
        case ["get", "pods", "-l", labels, "-o", path] if labels == f"job-name={NAME}":
            sys.stdout.write(_field(path))
        case ["get", job, "-o", _] if job == f"job.batch/{NAME}":
            sys.stdout.write({"late": "DeadlineExceeded", "unscheduled": "FailedCreate"}.get(WRONG, ""))
        case ["logs", "--follow", _, "-c", "sandbox"]:
            return _run()
        case ["delete", *_]:
            (STATE / "job").unlink()
        case other:
            raise AssertionError(f"the stand-in does not know {other}")
    return 0


def _field(path: str) -> str:
    """A field of the Pod, as in a run without faults."""
    waiting = WRONG == "no image"
    fields = {
        ".status.phase": "Pending" if waiting or WRONG == "unscheduled" else "Running",
        ".status.containerStatuses[0].state.waiting.reason": "ErrImageNeverPull" if waiting else "",
        ".status.containerStatuses[0].state.waiting.message": "no such image" if waiting else "",
        ".metadata.name": f"{NAME}-xyz",
        ".status.reason": "",
    }
    key = path.removeprefix("jsonpath={.items[0]").removesuffix("}")
    if key.endswith(".exitCode"):
        status = STATE / "status"
        return status.read_text() if status.exists() and WRONG != "late" else ""
    return fields[key]


def _run() -> int:
    """Run the command as a cluster would read it, and keep its status."""
    import subprocess  # noqa: PLC0415 - most calls end without it

    import yaml  # noqa: PLC0415

    job: Any = yaml.safe_load((STATE / "job").read_bytes())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command = [re.sub(r"\$\$", "$", word) for word in container["command"]]
    if WRONG == "late":
        return 0
    status = subprocess.run(command, check=False, timeout=30).returncode
    (STATE / "status").write_text(str(status))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
