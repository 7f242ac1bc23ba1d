"""The content of the documentation's tables: existing names, and answers from a real proof.

Tests of verify/catalogue/__init__.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sandwright.cli import reference
from sandwright.methods import METHODS, registry
from sandwright.policy.names import FEATURES
from sandwright.reference import methods, policy
from sandwright.reference.methods import VERIFIED
from support.standby import COMMAND as SANDWRIGHT

DECLARATIONS = {name: registry.declaration(name).support for name in METHODS}


def test_named_probes_exist() -> None:
    """The probes that no claim leads to are listed by hand."""
    everywhere = {name for method in VERIFIED for name in methods.probe_names(method)}
    for feature, names in methods.GRANTED.items():
        assert feature in FEATURES
        assert set(names) <= everywhere, feature


@pytest.mark.needs("bwrap", "squid", "haproxy", "openssl")
def test_a_real_proof_has_the_probes_that_are_listed(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "sandbox.yaml").write_text(
        "method: bwrap\nworkspace: review\nresources: {files: 64, time: 1h}\nenvironment: {set: {A: b}}\n"
        "network: {mode: proxy, http: [{host: a.example}]}\nmcp: {tools: [search]}\n"
    )
    report = tmp_path / "report.json"
    subprocess.run([*SANDWRIGHT, "verify", "--json", report], cwd=tmp_path / "p", timeout=300, check=False)
    outcomes = json.loads(report.read_text())
    assert [each["probe"] for each in outcomes if each["verdict"] == "fail"] == []
    attempted = {each["probe"] for each in outcomes}
    paths = {name for name in attempted if ": " in name}
    listed = methods.probe_names("bwrap")
    assert len(attempted - paths) > 90
    assert attempted - paths <= listed, "the documentation does not know these"
    others = {
        "processes/host-interfaces",
        "lifecycle/starts",
        "limits/pids",
        "limits/memory",
        "network/proxy",
        "network/host",
    }
    others |= {"files/home"} | (set() if os.geteuid() == 0 else {"processes/root"})
    assert listed - attempted <= others, "the documentation promises these"


@pytest.mark.parametrize("method", METHODS)
def test_a_page_says_what_is_declared(method: str) -> None:
    rows = methods.support(method).splitlines()[2:]
    assert len(rows) == len(FEATURES)
    for row, feature in zip(rows, FEATURES, strict=True):
        name, _, level, *rest = row.split(" | ")
        assert name.strip("| `") == feature
        declared = DECLARATIONS[method][feature].level
        words = {
            "exact": "exact",
            "stricter": "stricter",
            "partly": "**partly**",
            "cannot": "**cannot**",
            "unused": "does not apply",
        }
        assert level.startswith(words[declared]), row
        assert bool(rest) is (method in VERIFIED)


def test_what_cannot_be_enforced_is_not_proved() -> None:
    for method in VERIFIED:
        for row in methods.support(method).splitlines():
            assert "**cannot**" not in row or row.endswith("| no probe |"), row


def test_the_policy_has_each_key() -> None:
    text = policy.texts()["policy"]
    for key in (
        "schema",
        "filesystem.write",
        "network.allow",
        "credentials.shims.secrets",
        "accept_gaps.feature",
    ):
        assert f"# `{key}`\n" in text
    assert "Absent: inherited; `default` grants `$PROJECT`." in text
    assert "One of `none`, `proxy`, `host`." in text


def test_each_task_is_there_with_its_words() -> None:
    text = reference.texts()["commands"]
    assert "### `sandwright lint [OPTIONS] [FILE ...]`\n" in text
    assert "### `sandwright explain [OPTIONS] [QUESTION] [SUBJECT] [ARGUMENT ...]`\n" in text
    assert "| `--check` | write nothing; fail if the files are stale |" in text
    assert "| `--[no-]smoke` | smoke-test each image under each runtime |" in text


def test_each_status_is_there_once() -> None:
    rows = [line.split(" | ")[0].strip("| ") for line in reference.exits().splitlines()[2:]]
    assert len(rows) == len(set(rows))
    assert {"2", "4", "12", "13", "64"} <= set(rows)
