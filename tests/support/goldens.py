"""The golden cases: a policy and a host each, and the artifacts that every method renders for them.

`tests/golden/<case>/<method>/` has each artifact as a file of its name, in lines that read well (`recorded`);
the seccomp profiles are in `tests/golden/seccomp/<profile>/`. The file `same` lists artifacts without a file:

- `NAME = ARTIFACT` names an artifact with the same bytes. - `NAME = sha256:DIGEST` has only the digest, for
compiled filters.

`SANDWRIGHT_UPDATE_GOLDEN=1 pytest tests/test_golden.py` records the current rendering; then read `git diff`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from sandwright.api import Policy
from sandwright.evaluate.bpf import listing, read_program
from sandwright.launcher import LAUNCH, LAUNCH_INIT
from sandwright.methods.registry import artifacts as artifacts_of
from sandwright.methods.registry import render
from sandwright.policy.facts import HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact, json_text
from sandwright.seccomp.bpf import compile_profile
from sandwright.seccomp.catalogue import profile
from sandwright.seccomp.oci import gvisor_json, oci_json
from support.recorded import bytes_of, decoded, encoded, lines_of, split

CASES = ("ci", "hostile-names", "python-project", "strict")
GOLDEN = Path(__file__).parents[1] / "golden"
INPUTS = {"facts.json", "facts-darwin.json", "sandbox.yaml"}
SAME = "same"

METHODS = (
    "bwrap",
    "oci",
    "gvisor",
    "docker",
    "podman",
    "devcontainer",
    "kubernetes",
    "kubernetes-install",
    "user",
    "landlock",
    "seatbelt",
)
PROFILES = ("default", "strict", "build", "bwrap-in-container", "runsc-in-container", "kernel-of-vm")
LISTED = "seccomp/default/amd64.bpf.txt"
"""The one compiled program that is recorded with its instructions; others have a digest."""
NOT_RENDERED = {
    ("hostile-names", "kubernetes"): "Kubernetes takes no ':' in a mountPath",
    ("hostile-names", "kubernetes-install"): "Kubernetes takes no ':' in a mountPath",
    ("ci", "landlock"): r"landlock cannot enforce filesystem\.attributes",
    ("hostile-names", "landlock"): r"landlock cannot enforce filesystem\.deny-inside",
    ("python-project", "landlock"): r"landlock cannot enforce filesystem\.deny-inside",
}
"""Cases that a method refuses, with its reason."""
OWN = {
    "user": ("plan", "launch.plan"),
    "kubernetes-install": (
        *(
            f"admission-{part}-{kind}.yaml"
            for part in ("pods", "proxy", "exec")
            for kind in ("policy", "binding")
        ),
        *("kustomization.yaml", "limitrange.yaml", "limitrange-fleet.yaml", "namespace-fleet.yaml"),
        *("profile-daemonset.yaml", "sandbox.yaml", "sandboxtemplate.yaml"),
    ),
}
"""The artifacts of a method alone; it shares the others with another method."""

FOLDERS = (
    *(f"seccomp/{name}" for name in PROFILES),
    *(f"{case}/{method}" for case in CASES for method in METHODS if (case, method) not in NOT_RENDERED),
)
"""The directories of recorded artifacts, in an order in which later ones can refer to earlier ones."""


def case_policy(case: str, *, facts: str = "facts.json") -> ResolvedPolicy:
    """The policy of a case on its host: a Linux one, or that of `facts-darwin.json`."""
    host = HostFacts.from_json((GOLDEN / case / facts).read_bytes(), file=facts)
    return Policy.from_text((GOLDEN / case / "sandbox.yaml").read_bytes()).resolve(host)


def rendered(folder: str) -> Mapping[str, bytes]:
    """The artifacts of a folder in their current rendering."""
    case, method = folder.split("/")
    return _profile(method) if case == "seccomp" else _artifacts(case, method)


def _profile(name: str) -> dict[str, bytes]:
    found = profile(name)
    texts = {
        "engine.json": json_text(oci_json(found.expand(), comments=True)),
        "gvisor.json": json_text(gvisor_json(found.expand())),
        "amd64.bpf.txt": listing(read_program(compile_profile(found.expand(), arch="amd64"))),
        "arm64.bpf.txt": listing(read_program(compile_profile(found.expand(), arch="arm64"))),
    }
    return {file: text.encode() for file, text in texts.items()}


def _artifacts(case: str, method: str) -> dict[str, bytes]:
    """The shipped binaries are those of the package, whose digests another test checks.

    In plans their names replace these digests, which change with the sources.
    """
    policy = case_policy(case, facts="facts-darwin.json" if method == "seatbelt" else "facts.json")
    form = method == "devcontainer"
    artifacts = artifacts_of(policy, method) if form else render(policy, method).artifacts
    records = [json.loads(each.record.read_text()) for each in (LAUNCH, LAUNCH_INIT)]
    programs = {digest for each in records for digest in each["programs"].values()}
    names = {each.digest: each.name for each in artifacts if each.digest in programs}

    def plain(content: bytes) -> bytes:
        for digest, name in names.items():
            content = content.replace(digest.removeprefix("sha256:").encode(), f"<{name}>".encode())
        return content

    return {
        each.name: plain(each.content)
        for each in artifacts
        if each.digest not in programs and each.name in OWN.get(method, (each.name,))
    }


def check_golden(folder: str) -> None:
    """Compare the rendering with the record of a folder: the same names, and the same bytes."""
    found = rendered(folder)
    assert names_recorded(folder) == set(found)
    same = _same(folder)
    for name, content in found.items():
        if same.get(name, "").startswith("sha256:"):
            assert (name, same[name]) == (name, _digest(content))
        else:
            golden = recorded(f"{folder}/{name}")
            assert (name, decoded(content)) == (name, decoded(golden))


def names_recorded(folder: str) -> set[str]:
    """The names of the artifacts that a folder records."""
    return (_files(folder) - {SAME}) | set(_same(folder))


def recorded(artifact: str) -> bytes:
    """The bytes of an artifact with recorded content."""
    case, method, name = artifact.split("/", 2)
    if twin := _same(f"{case}/{method}").get(name):
        return recorded(twin)
    return bytes_of(name, split(decoded((GOLDEN / artifact).read_bytes())))


def _same(folder: str) -> dict[str, str]:
    path = GOLDEN / folder / SAME
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: other for name, _, other in (line.partition(" = ") for line in lines)}


def _files(folder: str) -> set[str]:
    here = GOLDEN / folder
    return {path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def record_all() -> None:
    """Record everything in its current rendering; an equal record is not changed."""
    lock = os.open(GOLDEN, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        contents: dict[str, bytes] = {}
        for folder in FOLDERS:
            found = rendered(folder)
            _write(folder, _forms(folder, found, contents))
            contents.update({f"{folder}/{name}": content for name, content in found.items()})
    finally:
        os.close(lock)


def _forms(folder: str, found: Mapping[str, bytes], before: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that record a folder. `before` has the artifacts of earlier folders."""
    files: dict[str, bytes] = {}
    same: dict[str, str] = {}
    for name, content in sorted(found.items()):
        twin = next((other for other, theirs in before.items() if theirs == content), None)
        if twin is not None:
            same[name] = twin
        elif name.endswith(".bpf.txt") and f"{folder}/{name}" != LISTED:
            same[name] = _digest(content)
        else:
            files[name] = encoded("".join(lines_of(name, content)))
    if same:
        files[SAME] = "".join(f"{name} = {other}\n" for name, other in same.items()).encode()
    return files


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    for name in _files(folder) - set(files):
        (GOLDEN / folder / name).unlink()
    for name, content in files.items():
        path = GOLDEN / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
            path.chmod(0o644)


def write_artifacts(folder: Path, artifacts: Iterable[Artifact]) -> Path:
    """Write artifacts as `render` does."""
    for each in artifacts:
        path = folder / each.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a running program can't be written to
        path.write_bytes(each.content)
        path.chmod(each.mode)
    return folder
