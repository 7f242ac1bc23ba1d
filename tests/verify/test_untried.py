"""The result of `verify` for each finding of a preflight, for each method: a skip or a failure."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandwright.engines.client import EngineClient
from sandwright.errors import HostError, SandwrightError, UsageError
from sandwright.host import MachineFacts, collect_host
from sandwright.methods import registry
from sandwright.methods.contract import CODES, Code, Preflight
from sandwright.methods.docker.backend import Docker
from sandwright.methods.gvisor.outer import backend as outer
from sandwright.methods.podman.backend import Podman
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.verify import matrix
from sandwright.verify.prove import MethodProof
from sandwright.verify.verdict import Verdict
from support.proving import resolver

METHODS = [name for name in matrix.METHODS if name != "seatbelt"]
BROKEN = ("hangs", "not-started", "not-denied")


class _Found:
    """A method whose preflight gives the test's finding."""

    def __init__(self, name: str, code: Code) -> None:
        self.found = Preflight(name, code, "the reason", "the way out")

    def preflight(self, _: MachineFacts) -> Preflight:
        return self.found


def _unused(*_: object, **__: object) -> Any:
    raise AssertionError("a method that cannot be taken was tried")


@pytest.mark.parametrize("code", [code for code in CODES if code != "ready"])
@pytest.mark.parametrize("method", METHODS)
def test_what_a_preflight_finds_is_the_verdict(
    method: str, code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "backend", lambda row: _Found(row, code))
    monkeypatch.setattr(registry, "variant_name", lambda name, _: name)
    monkeypatch.setattr(matrix, "prove", _unused)
    proof = matrix._proof(lambda *_: ResolvedPolicy.__new__(ResolvedPolicy), method, collect_host())
    (outcome,) = proof.outcomes
    assert outcome.verdict is (Verdict.FAIL if code in BROKEN else Verdict.SKIPPED)
    assert outcome.evidence == f"{method}: the reason; the way out"


ENGINES = [("gvisor-docker", Docker), ("gvisor-podman", Podman)]
DEAD = Preflight("an engine", "daemon-dead", "nobody answers")


def _fails(error: SandwrightError) -> Any:
    def run(*_: object, **__: object) -> None:
        raise error

    return run


LACKING: dict[str, tuple[Preflight | None, SandwrightError | None, Code, str]] = {
    "no daemon": (DEAD, None, "daemon-dead", "nobody answers"),
    "no image": (None, None, "image-missing", "has no image"),
    "another fault": (None, HostError("it broke"), "not-started", "it broke"),
}


@pytest.mark.parametrize(("name", "engine"), ENGINES)
@pytest.mark.parametrize("lacking", LACKING.values(), ids=LACKING)
def test_gvisor_in_a_container(
    name: str,
    engine: type,
    lacking: tuple[Preflight | None, SandwrightError | None, Code, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing requirement is reported at once: it used to be ignored as false, and a start was tried."""
    dead, error, code, said = lacking
    monkeypatch.setattr(engine, "dead", lambda _: dead)
    monkeypatch.setattr(outer.OuterGvisor, "_load_image", lambda *_: None)
    monkeypatch.setattr(outer, "try_out", _unused)
    monkeypatch.setattr(EngineClient, "image_id", lambda *_, **__: "")
    if error is not None:
        monkeypatch.setattr(EngineClient, "image_id", _fails(error))
    backend = registry.backend(name)
    host = collect_host()
    programs = {**host.programs, **dict.fromkeys((name.partition("-")[2], "docker"), "/usr/bin/engine")}
    found = backend.preflight(replace(host, programs=programs))
    assert (found.method, found.code, found.ready) == (name, code, False)
    assert said in found.message


@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_gvisor_in_a_container_of_an_engine_that_is_not_there(name: str, engine: type) -> None:
    found = registry.backend(name).preflight(replace(collect_host(), programs={}))
    assert (found.code, found.ready) == ("program-missing", False)
    assert engine().name in found.message


def test_a_finding_has_no_truth_value_of_its_own() -> None:
    """Otherwise `if found` would not ask whether there is a finding."""
    assert all(Preflight("x", code) for code in CODES)
    assert [code for code in CODES if Preflight("x", code).ready] == ["ready"]


def test_asking_for_what_is_no_method() -> None:
    with pytest.raises(UsageError, match="cannot verify 'rocket'"):
        matrix.methods("rocket")


def test_what_runs_elsewhere_is_not_proved_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is skipped without a repository for the project, and with a network; otherwise it is proved."""
    variable = registry.properties("kubernetes").copies_project
    backend = type(registry.backend("kubernetes"))
    monkeypatch.setattr(backend, "preflight", lambda *_: Preflight("kubernetes", "ready"))
    monkeypatch.delenv(variable, raising=False)
    closed, opened = (
        f"schema: 1\nmethod: kubernetes\nnetwork: {{mode: {mode}}}\n" for mode in ("none", "host")
    )
    assert f"{variable} names no repository" in _skipped(closed, tmp_path)
    monkeypatch.setenv(variable, "127.0.0.1:1/projects")
    assert "its network is not this machine's" in _skipped(opened, tmp_path)
    monkeypatch.setattr(matrix, "prove", lambda *_: MethodProof("kubernetes", (), ()))
    report = matrix.verify(resolver(closed, tmp_path), ["kubernetes"], policy="p")
    assert report.outcomes == ()


def _skipped(text: str, project: Path) -> str:
    (outcome,) = matrix.verify(resolver(text, project), ["kubernetes"], policy="p").outcomes
    assert outcome.verdict is Verdict.SKIPPED
    return outcome.evidence


@pytest.mark.parametrize("asked", [["bwrap"], ["bwrap", "oci"]])
def test_a_signal_ends_the_proof_of_one_method(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python delivers signals to the main thread, which would otherwise wait for the other proofs."""
    seen = []

    def proved(_: object, method: str, *__: object) -> MethodProof:
        seen.append(threading.current_thread())
        return MethodProof(method, (), ())

    monkeypatch.setattr(matrix, "_proof", proved)
    matrix.verify(resolver("schema: 1\nmethod: bwrap\n", tmp_path / "p"), asked, policy="p")
    assert ({*seen} == {threading.main_thread()}) == (len(asked) == 1)
