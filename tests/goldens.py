"""The golden cases: a policy and a host each, and the artifacts that every method makes of them.

`SANDWRIGHT_UPDATE_GOLDEN=1` writes what is rendered instead of comparing it; read the difference then.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from sandwright import mountwatch
from sandwright.api import Policy
from sandwright.policy.facts import HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact

CASES = ("ci", "hostile-names", "python-project", "strict")
GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("SANDWRIGHT_UPDATE_GOLDEN") == "1"


def case_policy(case: str, *, facts: str = "facts.json") -> ResolvedPolicy:
    """The policy of a case on its host: a Linux one, or that of `facts-darwin.json`."""
    host = HostFacts.from_json((GOLDEN / case / facts).read_bytes(), file=facts)
    return Policy.from_text((GOLDEN / case / "sandbox.yaml").read_bytes()).resolve(host)


def check_golden(case: str, method: str, artifacts: Sequence[Artifact]) -> None:
    """Compare artifacts with the files of a case, byte for byte and none left over.

    The program that watches mounts is the one of the package, whose digest another test holds.
    """
    folder = GOLDEN / case / method
    programs = [each for each in artifacts if each.name == mountwatch.NAME]
    artifacts = [each for each in artifacts if each.name != mountwatch.NAME]
    assert {each.digest for each in programs} <= set(_digests().values())
    if UPDATE:
        write_artifacts(folder, artifacts, fresh=True)
    there = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    assert {each.name: each.content for each in artifacts} == there


def _digests() -> dict[str, str]:
    found: dict[str, str] = json.loads((mountwatch.PROGRAMS / "programs.json").read_text())["programs"]
    return found


def write_artifacts(folder: Path, artifacts: Iterable[Artifact], *, fresh: bool = False) -> Path:
    """Write artifacts as `render` does."""
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    for each in artifacts:
        path = folder / each.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a program that runs can't be written to
        path.write_bytes(each.content)
        path.chmod(each.mode)
    return folder
