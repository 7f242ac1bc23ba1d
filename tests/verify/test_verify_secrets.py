"""The two-token proof and that of cloud accounts: they fail if a secret is accessible.

The tests of complete proofs show that they pass for each method.

Tests of verify/cloud.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.errors import RenderError
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from sandwright.render.artifact import Artifact
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.page import page
from sandwright.verify.probe import Family
from sandwright.verify.prove import Weaken, prove
from sandwright.verify.report import PolicyReport, encode_report, junit
from sandwright.verify.simulate import simulate
from sandwright.verify.subject import ProofSubject
from sandwright.verify.tokens import SOURCE, VARIABLE
from sandwright.verify.verdict import Verdict
from support.proving import resolver, unwatched
from support.weakening import group_id, launcher, plan, probes, replaced, several, together

POLICY = "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n"
ALL = {
    "secrets/cloud", "secrets/cloud-off", "secrets/cluster", "secrets/gone", "secrets/inside",
    "secrets/outside", "secrets/refused", "secrets/required", "secrets/two-tokens",
}  # fmt: skip


@pytest.fixture
def secrets(tmp_path: Path) -> Callable[..., list[ProbeOutcome]]:
    """Proves a method's probes about secrets."""

    def proved(method: str, weaken: Weaken | None = None, text: str = POLICY) -> list[ProbeOutcome]:
        resolve = resolver(text, tmp_path / "project")
        proof = prove(resolve, method, weaken=weaken, runs=False, secrets=True)
        return [each for each in proof.outcomes if each.family is Family.SECRETS]

    return proved


def _red(found: Sequence[ProbeOutcome]) -> dict[str, str]:
    """The outcomes that do not pass, with their evidence; all of them must have been judged."""
    assert {each.probe for each in found} == ALL
    return {each.probe: each.evidence for each in found if each.verdict is not Verdict.PASS}


def _bound_writable(name: str) -> Weaken:
    """bwrap gets a part of the planted home as writable."""

    def weaken(subject: ProofSubject, artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
        path = f"{subject.fixture.root}/home/{name}\0".encode()
        readonly, writable = b"--ro-bind\0" + path + path, b"--bind\0" + path + path
        top = f"{subject.fixture.root}/home/{name.split('/', maxsplit=1)[0]}\0".encode()
        if any(each.name == "args" and (top in each.content or path in each.content) for each in artifacts):
            return _where_there(artifacts, "args", readonly, writable)
        return replaced(artifacts, "args", lambda content: content + writable)

    return weaken


def _not_hidden(name: str) -> Weaken:
    """bwrap hides one account fewer."""

    def weaken(subject: ProofSubject, artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
        path = f"{subject.fixture.root}/home/{name}\0".encode()
        artifacts = _where_there(artifacts, "args", b"--remount-ro\0" + path, b"")
        return _where_there(artifacts, "args", b"--tmpfs\0" + path, b"")

    return weaken


def _where_there(artifacts: tuple[Artifact, ...], name: str, old: bytes, new: bytes) -> tuple[Artifact, ...]:
    """The same artifacts in sandboxes without the removed restriction: each proof has several."""
    if not any(each.name == name and old in each.content for each in artifacts):
        return artifacts
    return replaced(artifacts, name, lambda content: content.replace(old, new))


def _writing(path: str) -> Weaken:
    """bubblewrap starts after token B was written to a file."""
    writing = f'write_file(AT_FDCWD, {path}, getenv("{SOURCE}"), strlen(getenv("{SOURCE}")), 0644);'
    starting = "execute(all.at);"
    return launcher(
        "bwrap.c", starting, f'if (getenv("{SOURCE}") != NULL) {{\n    {writing}\n    }}\n    {starting}'
    )


VARIABLE_PASSED = launcher(
    "bwrap.c",
    "nothing[] = {NULL};",
    f'nothing[] = {{xasprintf("{VARIABLE}=%s", getenv("{VARIABLE}")), NULL}};',
)
UNCHECKED = (
    'if (getenv("SANDWRIGHT_SHIMS") == NULL && setenv("SANDWRIGHT_SHIMS", "/", 1) == 0)\n        return;'
)
BWRAP: dict[str, tuple[Weaken, str]] = {
    "token A as a variable": (VARIABLE_PASSED, "inside"),
    "token B in a file of the launcher's": (_writing('xasprintf("%s/log", run->directory)'), "outside"),
    "token B in a file inside": (
        lambda subject, artifacts: _writing(f'"{subject.fixture.write}/log"')(subject, artifacts), "inside",
    ),
    "the shims' place on PATH": (
        launcher("bwrap.c", '("%s/bin:%s", run->plan.shims.place,', '("%.*s%s", 0, run->plan.shims.place,'),
        "gone refused two-tokens",
    ),
    "the check for a bridge": (
        launcher("shims.c", "struct stat socket;", f"struct stat socket;\n    {UNCHECKED}"), "required",
    ),
    "an account's being read-only": (_bound_writable(".aws"), "cloud"),
    "the key file's being read-only": (_bound_writable("keys/google.json"), "cloud"),
    "a cluster's being read-only": (_bound_writable(".kube/config"), "cluster"),
    "an account's being hidden": (_not_hidden(".config/gcloud"), "cloud-off"),
}  # fmt: skip
MOUNTED = {name for name in BWRAP if name.endswith(("read-only", "hidden"))}
"""Mounts, which a launcher would compare."""


@pytest.mark.needs("bwrap", "cc")
@pytest.mark.parametrize("given", together(BWRAP), ids=group_id)
def test_what_is_given_away_turns_exactly_its_probes_red(
    given: list[str], secrets: Callable[..., list[ProbeOutcome]]
) -> None:
    changed = several(*(BWRAP[name][0] for name in given))
    change = unwatched(changed) if MOUNTED & set(given) else changed
    assert {each.removeprefix("secrets/") for each in _red(secrets("bwrap", change))} == probes(BWRAP, given)


@pytest.mark.needs("runc", "cc")
def test_a_variable_in_the_bundle(secrets: Callable[..., list[ProbeOutcome]]) -> None:
    """runc's configuration of the run is metadata of the container."""
    change = plan(lambda _, whole: replace(whole, passed=(*whole.passed, SOURCE), never=()))
    assert set(_red(secrets("oci", change))) == {"secrets/inside", "secrets/outside"}


@pytest.mark.needs("docker", "cc")
def test_what_docker_is_told(secrets: Callable[..., list[ProbeOutcome]]) -> None:
    """A label is an argument of its client, and part of its description of the container."""
    named = 'strv_push(&words, xasprintf("--name=%s", run->name));'
    told = f'strv_push(&words, xasprintf("--label=token=%s", getenv("{SOURCE}")));'
    change = launcher("engine_words.c", named, f"{named}\n    {told}")
    found = secrets("docker", change)
    assert set(_red(found)) == {"secrets/outside"}
    (outside,) = (each for each in found if each.probe == "secrets/outside")
    assert "docker: inspect " in outside.observed
    assert "arguments: process " in outside.observed


@pytest.mark.needs("bwrap", "cc")
def test_a_policy_with_shims_of_its_own(secrets: Callable[..., list[ProbeOutcome]]) -> None:
    """None of its programs is run and none of its secrets is read: stand-ins replace them."""
    shims = "credentials: {shims: {deploy-it: {secrets: {DEPLOY_KEY: '${NOT_SET_HERE}'}, allow: ['now']}}}\n"
    found = secrets("bwrap", None, POLICY + shims)
    assert _red(found) == {}
    (refused,) = (each for each in found if each.probe == "secrets/refused")
    assert "call deploy-it --sandwright → ok 'status 126" in refused.evidence


@pytest.mark.needs("bwrap", "cc")
def test_a_policy_whose_sandbox_reaches_no_bridge(secrets: Callable[..., list[ProbeOutcome]]) -> None:
    found = {each.probe: each for each in secrets("bwrap", None, POLICY + "network: {mode: host}\n")}
    assert found["secrets/two-tokens"].verdict is Verdict.SKIPPED
    assert "neither Unix sockets nor a separate loopback" in found["secrets/two-tokens"].evidence
    assert found["secrets/cloud"].verdict is Verdict.PASS


@pytest.mark.needs("bwrap", "cc")
def test_no_token_is_in_a_report(secrets: Callable[..., list[ProbeOutcome]]) -> None:
    """This includes the report of a proof that found one."""
    found = tuple(secrets("bwrap", VARIABLE_PASSED))
    report = PolicyReport("sandbox.yaml", ("bwrap",), found, (), "2026-01-01T00:00:00+00:00", 1.0, "here")
    for text in (encode_report(report), junit(report), page(report, ())):
        assert b"sandwright-canary-" in text, "what was looked for is told"
        assert b"-A-" not in text
        assert b"-B-" not in text


SEATBELT = {
    "an account's being read-only": ('(allow file-write-data (subpath "{home}/.aws"))', "secrets/cloud"),
    "an account's being hidden": (
        '(allow file-read* (subpath "{home}/.config/gcloud"))',
        "secrets/cloud-off",
    ),
    "the key file's being hidden": (
        '(allow file-read* (literal "{home}/keys/google.json"))',
        "secrets/cloud-off",
    ),
}


@pytest.mark.needs("cc")
@pytest.mark.parametrize("names", together(SEATBELT), ids=group_id)
def test_rules_more_of_a_profile(names: list[str], tmp_path: Path) -> None:
    def weaken(subject: ProofSubject, artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
        rules = "".join(f"{SEATBELT[name][0]}\n" for name in names)
        text = rules.format(home=f"/private{subject.fixture.root}/home").encode()
        return replaced(artifacts, "profile.sb", lambda content: content + text)

    proof = simulate(resolver(POLICY, tmp_path / "project"), "seatbelt", weaken=weaken)
    failed = {each.probe for each in proof.outcomes if each.verdict is not Verdict.PASS}
    assert failed == {*probes(SEATBELT, names), "links/git: not held"}


@pytest.mark.parametrize("refused", ["kubernetes"])
def test_methods_that_can_not_are_refused(refused: str, tmp_path: Path) -> None:
    loaded = Policy.from_text(f"{POLICY}credentials: {{cloud: readonly}}\n")
    policy = loaded.resolve(collect_facts(loaded, project=tmp_path, environ={"HOME": "/home/u"}))
    with pytest.raises(RenderError, match=rf"{refused} cannot enforce credentials\.cloud"):
        render(policy, refused)


@pytest.mark.needs("bwrap")
def test_no_program_of_a_project_runs_on_the_host(
    secrets: Callable[..., list[ProbeOutcome]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox can write `bin` of its project, and the user may have it in PATH."""
    planted = tmp_path / "other" / "bin"
    planted.mkdir(parents=True)
    (planted.parent / "sandbox.yaml").write_text("schema: 1\n")
    (planted / "cut").write_text(f'#!/bin/sh\necho >>{tmp_path}/ran\nexec /usr/bin/cut "$@"\n')
    (planted / "cut").chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted}:{os.environ['PATH']}")
    assert _red(secrets("bwrap")) == {}
    assert not (tmp_path / "ran").exists()
