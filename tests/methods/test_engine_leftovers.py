"""What a killed session leaves with an engine is found by the directory of its run, and nothing else is."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import HostError
from sandwright.methods.contract import Leftover
from sandwright.methods.registry import backend
from sandwright.methods.shared.engine.backend import LABEL
from sandwright.signalling import started

ENGINES = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("docker", "podman")]


@pytest.fixture
def names() -> list[str]:
    return [
        f"sandwright-{uuid.uuid4()}-inside",
        f"sandwright-{uuid.uuid4()}-inside",
        f"sandwright-{uuid.uuid4()}",
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_networks(engine: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a recorded run goes; one that only looks like it, and one without our label, stay."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    method = backend(engine)
    ours, foreign, unlabelled = names
    run = tmp_path / "sandwright" / "runs" / ours.removesuffix("-inside")
    run.mkdir(parents=True)
    (run / "owner").write_text(f"{engine}\n{os.getpid()} {started(os.getpid())}\n1 1\n")
    try:
        for name, labels in ((ours, [f"{LABEL}=1"]), (foreign, [f"{LABEL}=1"]), (unlabelled, [])):
            options = [word for label in labels for word in ("--label", label)]
            process.run(engine, "network", "create", "--internal", *options, name, timeout=60)
        assert list(method.leftovers(())) == [], "somebody looks after it"
        with pytest.raises(HostError, match="not ours"):
            method.remove(Leftover(engine, "network", ours))
        (run / "owner").write_text(f"{engine}\n1 1\n1 1\n")
        found = list(method.leftovers(()))
        assert found == [Leftover(engine, "network", ours), Leftover(engine, "directory", str(run))]
        method.remove(found[0])
        assert ours not in {each.name for each in method.leftovers(())}
        for other in (foreign, unlabelled):
            with pytest.raises(HostError, match="not ours"):
                method.remove(Leftover(engine, "network", other))
        method.remove(found[1])
        assert list(method.leftovers(())) == []
        listed = process.run(engine, "network", "ls", "--format", "{{.Name}}", timeout=60).text.split()
        assert {foreign, unlabelled} <= set(listed)
    finally:
        for name in names:
            process.run(engine, "network", "rm", name, timeout=60, check=False)
