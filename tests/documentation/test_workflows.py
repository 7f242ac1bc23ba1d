"""Our workflows, the action and the templates: well-formed, pinned, and made of commands that people run."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from sandwright import process
from sandwright.cli.commands.table import COMMANDS

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "docs" / "adopt" / "gitlab-ci.yml"
BIN = Path(sys.executable).parent
TASKS = {each.name: {option.flag for option in each.arguments} for each in COMMANDS} | {
    "release-build": {"--out", "--tag"},
    "release-sign": {"--out", "--key", "--commit"},
}
"""Our tasks, and those of this checkout."""

OTHERS = (
    r"\.ci/run",
    r"python (-I )?-m pip install .+",
    r"sudo sysctl --write kernel\.apparmor_restrict_unprivileged_userns=0",
    r"tar --create .+",
    r'tar --extract --file "\$RUNNER_TEMP/build\.tar"',
    r"cp .+",
    r'cat "\$RUNNER_TEMP/changes\.md"',
    r"git .+",
    r"gh .+",
    r"printf '%s' \"\$SIGNING_KEY\" > \"\$RUNNER_TEMP/key\.pem\"",
    r"printf '%s' \"\$GH_TOKEN\" \| docker login ghcr\.io .+",
    r'rm "\$RUNNER_TEMP/key\.pem"',
    r"go install github\.com/AkihiroSuda/alcless/cmd/alclessctl@[0-9a-f]{40}",
    r"\./try",
)
"""Commands in scripts that are not our tasks: whole lines."""


def _documents() -> list[Path]:
    return [*WORKFLOWS, ACTION]


def _steps(path: Path) -> Iterator[dict[str, Any]]:
    document = yaml.safe_load(path.read_text())
    jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
    for job in jobs:
        yield from job["steps"]


def _commands(path: Path) -> list[str]:
    if path == GITLAB:
        jobs = list(yaml.safe_load_all(path.read_text()))[1].values()
        lines = [line for job in jobs for line in job.get("script", ())]
        return [line.removeprefix('test -z "$SANDWRIGHT_FACTS" || ') for line in lines]
    return [line for step in _steps(path) for line in step.get("run", "").splitlines() if line]


def _id(value: object) -> str:
    return value.name if isinstance(value, Path) else str(value)[:60]


ALL = [(path, command) for path in [*_documents(), GITLAB] for command in _commands(path)]


@pytest.mark.parametrize(("path", "line"), ALL, ids=_id)
def test_each_line_is_a_command_that_people_run(path: Path, line: str) -> None:
    # The installation comes from a checkout.
    line = line.replace("python -P builder/bin/sandwright-interpreter ", "sandwright ", 1)
    words = shlex.split(line.split(" > ", maxsplit=1)[0])
    if words[0] not in ("sandwright", "invoke"):
        assert any(re.fullmatch(pattern, line) for pattern in OTHERS), line
        return
    task, rest = words[1], words[2:]
    assert task in TASKS, line
    options = {word.split("=")[0] for word in rest if word.startswith("-")}
    assert options <= TASKS[task], line
    assert "||" not in words, "a command that may fail shows nothing"


@pytest.mark.parametrize("path", _documents(), ids=_id)
def test_what_others_wrote_is_pinned(path: Path) -> None:
    used = [step["uses"] for step in _steps(path) if "uses" in step]
    assert used
    for each in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each), each
        assert re.search(rf"{re.escape(each)} # v\d+\.\d+\.\d+$", path.read_text(), re.MULTILINE), each


@pytest.mark.parametrize("path", _documents(), ids=_id)
def test_no_value_of_others_is_put_into_a_script(path: Path) -> None:
    """GitHub pastes an expression's value into the script, which runs it; a variable is not run."""
    for step in _steps(path):
        assert "${{" not in step.get("run", ""), step


@pytest.mark.parametrize("path", WORKFLOWS, ids=_id)
def test_rights_and_time_are_limited(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert document["permissions"] == {}
    for job in document["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 120
        assert set(job["permissions"]) <= {"contents", "pull-requests", "packages"}


def test_zizmor_finds_nothing() -> None:
    files = [str(each) for each in _documents()]
    process.run(BIN / "zizmor", "--offline", "--no-progress", *files, timeout=120)


def test_zizmor_finds_what_is_wrong(tmp_path: Path) -> None:
    bad = tmp_path / ".github" / "workflows" / "bad.yml"
    bad.parent.mkdir(parents=True)
    step = "      - run: echo ${{ github.event.issue.title }}\n"
    bad.write_text(f"on: issues\njobs:\n  a:\n    runs-on: ubuntu-22.04\n    steps:\n{step}")
    found = process.run(BIN / "zizmor", "--offline", "--no-progress", bad, timeout=120, check=False)
    assert "template-injection" in found.text
    assert not found


@pytest.mark.parametrize(
    ("path", "name"),
    [*((path, "github-workflows") for path in WORKFLOWS), (ACTION, "github-actions"), (GITLAB, "gitlab-ci")],
    ids=_id,
)
def test_they_fit_their_schemas(path: Path, name: str) -> None:
    vendored = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{name}.json"
    document = list(yaml.load_all(path.read_text(), _NoTruth))[-1]  # GitLab's follows a header
    faults = Draft7Validator(json.loads(vendored.read_text())).iter_errors(document)
    assert [f"{fault.json_path}: {fault.message}" for fault in faults] == []


class _NoTruth(yaml.SafeLoader):
    """YAML as GitHub reads it, in which `on` is a word."""


_NoTruth.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool" or first not in "oO"
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def test_every_file_of_ours_is_linted() -> None:
    assert [path.name for path in WORKFLOWS] == [
        "linux.yml",
        "locks.yml",
        "macos.yml",
        "nightly.yml",
        "release.yml",
    ]


def _pins(name: str) -> dict[str, str]:
    """The lines of a file of constraints, by package."""
    lines = (ROOT / ".ci" / "constraints" / f"{name}.txt").read_text().splitlines()
    return {line.partition("==")[0]: line.partition("==")[2] for line in lines if not line.startswith("#")}


def test_constraints_pin_what_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [
        *project["project"]["dependencies"],
        *project["build-system"]["requires"],
        *itertools.chain(*extras.values()),
    ]
    names = {re.split(r"[^A-Za-z0-9._-]", each)[0].lower() for each in wanted} - {"sandwright"}
    assert names <= {each.replace("_", "-") for each in _pins("ci")}, "invoke constraints writes them anew"
    signing = [*project["project"]["dependencies"], *extras["release"]]
    assert {re.split(r"[^A-Za-z0-9._-]", each)[0].lower() for each in signing} <= set(_pins("signing"))
    for name in ("ci", "signing"):
        text = (ROOT / ".ci" / "constraints" / f"{name}.txt").read_text()
        assert "/" not in text, "no host is named"
        assert all(re.match(r"[0-9][0-9a-z.]*( |$)", version) for version in _pins(name).values())
    assert all(re.fullmatch(r"\S+ --hash=sha256:[0-9a-f]{64}", each) for each in _pins("signing").values())


def test_the_job_that_signs_builds_nothing() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    secret = {name for name, job in jobs.items() if "secrets." in json.dumps(job)}
    assert secret == {name for name, job in jobs.items() if "environment" in job} == {"sign"}
    writing = {
        name: {what for what, how in job["permissions"].items() if how == "write"}
        for name, job in jobs.items()
    }
    assert writing == {"build": set(), "sign": {"packages"}, "draft": {"contents"}}
    script = "\n".join(step.get("run", "") for step in jobs["sign"]["steps"])
    (installs,) = re.findall(r"pip install .+", script)
    assert {"--require-hashes", "--no-deps"} <= set(installs.split())
    assert re.search(r"--only-binary :all:", installs)
    assert not re.search(r"build-images|setup|python -m build|--editable", script)
    for name, job in jobs.items():
        assert (
            all("pip install" not in step.get("run", "") for step in job["steps"])
            or name == "sign"
            or (job["env"]["PIP_CONSTRAINT"].endswith("/.ci/constraints/ci.txt"))
        )


@pytest.mark.parametrize("path", [each for each in WORKFLOWS if each.name != "release.yml"], ids=_id)
def test_ci_installs_under_constraints(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert document["env"]["PIP_CONSTRAINT"].endswith("/.ci/constraints/ci.txt")
    assert document["env"]["PIP_BUILD_CONSTRAINT"].endswith("/.ci/constraints/ci.txt")
