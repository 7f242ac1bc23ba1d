"""`sandwright init`: its proposal for each project, which is a valid policy and the only file it writes.

Tests of cli/commands/everyday.py: the choices of `init --agent`.
Tests of init/files.py.
Tests of policy/agents.py: each agent has a preset.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import RenderError, UsageError
from sandwright.git.tracked import ignored_directories
from sandwright.host import MachineFacts, collect_host
from sandwright.init import chosen
from sandwright.init.init import check_proposal, propose
from sandwright.init.languages import LANGUAGES, is_secret
from sandwright.init.project import ProjectFacts, can_be_named, examine_project
from sandwright.init.proposal import Choice, proposal
from sandwright.methods import METHODS, registry
from sandwright.methods.contract import Backend, Preflight
from sandwright.methods.registry import render
from sandwright.policy.agents import AGENTS
from sandwright.policy.load import layer
from sandwright.policy.schema import policy_schema
from sandwright.session import preflights

DECLARATIONS = {name: registry.declaration(name).support for name in METHODS}

WAIT = 120
PREVENTED = ("bwrap", "docker", "podman", "gvisor", "oci", "seatbelt", "kubernetes")
"""Methods that enforce the whole proposal."""

SHAPES = {
    "empty": [],
    "python": ["pyproject.toml", "src/app/__init__.py", ".env"],
    "node": ["package.json", ".npmrc", ".github/workflows/ci.yml", ".github/workflows/release.yml"],
    "go": ["go.mod", "go.sum", "Makefile", "Dockerfile"],
    "rust": ["Cargo.toml", ".gitlab-ci.yml"],
    "java": ["build.gradle.kts", "keys/release.jks"],
    "several": ["web/package.json", "api/pyproject.toml", "infra/prod.tfvars", "Makefile", ".env.local"],
    "swift": ["Package.swift", "App.xcodeproj/project.pbxproj", "AuthKey.p12"],
    "hostile": [".env", "a b/it's \"x\".pem", "- {a, b}.key", "#x.key", "$HOME.pem", "ü/é.key", "[x].pem"],
}  # fmt: skip


def _make(folder: Path, names: Iterable[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret\n")
    return folder


@pytest.fixture(autouse=True)
def _ready(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "run").mkdir(mode=0o700)
    project = tmp_path / "p"
    project.mkdir()
    return project


def _environ(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "SANDWRIGHT_TEST_RUN") if name in os.environ}
    own = {"HOME": folder.parent / "home", "XDG_RUNTIME_DIR": folder.parent / "run"}
    return {**kept, **{name: str(path) for name, path in own.items()}, "LC_ALL": "C.UTF-8"}


def _sandwright(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sandwright", *words],
        cwd=folder,
        env=_environ(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


def _tree(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def _choice(method: str) -> Choice:
    return Choice(method, "Because.", DECLARATIONS[method])


def _proposed(folder: Path, method: str) -> Policy:
    text = proposal(examine_project(folder), _choice(method))
    return Policy.from_layers([layer(text, file="sandbox.yaml")])


@pytest.mark.parametrize(
    ("method", "shape"),
    [*(("bwrap", shape) for shape in SHAPES), *((method, "hostile") for method in PREVENTED[1:])],
)
def test_what_is_proposed_loads_and_renders(folder: Path, method: str, shape: str) -> None:
    _make(folder, SHAPES[shape])
    check_proposal(folder, proposal(examine_project(folder), _choice(method)), method)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("shape", ["hostile"])
def test_what_is_written_lints_renders_and_runs(folder: Path, shape: str) -> None:
    names = [*SHAPES[shape], "key: value.pem"]
    _make(folder, names)
    before = _tree(folder)
    made = _sandwright(folder, "init", "--yes", "--method", "bwrap")
    assert (made.returncode, made.stdout) == (0, (folder / "sandbox.yaml").read_text()), made.stderr
    assert _tree(folder) - before == {
        *("sandbox.yaml", ".sandbox", ".sandbox/policy.schema.json", ".sandbox/.gitignore"),
    }
    assert _sandwright(folder, "lint", "sandbox.yaml").returncode == 0
    assert _sandwright(folder, "render").returncode == 0
    secrets = [f"./{name}" for name in names if is_secret(name.rpartition("/")[2])]
    script = 'for each; do cat "$each" && exit 3; done; echo new >made; echo x >>sandbox.yaml || echo kept'
    ran = _sandwright(folder, "run", "--", "sh", "-c", script, "sh", *secrets)
    assert (ran.returncode, ran.stdout) == (0, "kept\n"), ran.stderr
    assert ran.stderr.count("Permission denied") == len(secrets), "each secret is there and cannot be read"
    assert (folder / "made").read_text() == "new\n"


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_proposed_for_an_agent_runs_after_the_word_for_it(folder: Path, agent: str) -> None:
    made = _sandwright(folder, "init", "--yes", "--method", "bwrap", "--agent", agent)
    assert made.returncode == 0, made.stderr
    assert made.stderr.endswith(f"  sandwright run -- {agent}\n")
    assert _sandwright(folder, "lint", "sandbox.yaml").returncode == 0
    refused = _sandwright(folder, "run", "--", "true")
    assert (refused.returncode, "agent" in refused.stderr or "passes" in refused.stderr) == (125, True)
    script = "echo new > made; for each; do touch ~/.local/state/sandwright/state/$each/x || exit 1; done"
    kept = [] if agent == "aider" else [agent]
    ran = _sandwright(folder, "run", "--trust-policy", "--", "sh", "-c", script, "sh", *kept)
    assert ran.returncode == 0, ran.stderr
    assert (folder / "made").exists()


@pytest.mark.needs("bwrap")
def test_an_agent_whose_state_lacks_a_name(folder: Path) -> None:
    """An update of sandwright adds read-only names to a preset; the next run creates them."""
    state = Path(_environ(folder)["HOME"], ".local/state/sandwright/state/gemini/.gemini")
    state.mkdir(parents=True, mode=0o700)
    made = _sandwright(folder, "init", "--yes", "--method", "bwrap", "--agent", "gemini")
    assert made.returncode == 0, made.stderr
    linted = _sandwright(folder, "lint", "sandbox.yaml")
    assert "cannot enforce" not in linted.stdout + linted.stderr


@pytest.mark.needs("bwrap")
def test_another_checkout_may_lack_the_secrets(folder: Path) -> None:
    _make(folder, [".env", "pyproject.toml"])
    assert _sandwright(folder, "init", "--yes", "--method=bwrap").returncode == 0
    (folder / ".env").unlink()
    assert _sandwright(folder, "run", "--", "true").returncode == 0


def test_nobody_to_ask_writes_nothing(folder: Path) -> None:
    _make(folder, SHAPES["python"])
    before = _tree(folder)
    shown = _sandwright(folder, "init", "--method", "kubernetes")
    assert shown.returncode == 3
    assert layer(shown.stdout).policy.method == "kubernetes"
    assert "add --yes to write it" in shown.stderr
    assert _tree(folder) == before


@pytest.mark.parametrize("there", ["file", "empty file", "link to nowhere", "directory"])
def test_a_policy_that_is_there_stays(folder: Path, there: str) -> None:
    path = folder / "sandbox.yaml"
    match there:
        case "file" | "empty file":
            path.write_text("schema: 1\n" if there == "file" else "")
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to("elsewhere.yaml")
    before = path.lstat()
    refused = _sandwright(folder, "init", "--yes", "--method", "kubernetes")
    assert (refused.returncode, refused.stdout) == (64, "")
    assert "is there already, and stays as it is" in refused.stderr
    assert path.lstat() == before
    assert _tree(folder) == {"sandbox.yaml"}


def test_it_writes_through_no_link(folder: Path) -> None:
    """A checkout may contain a link that leads out of it."""
    outside = folder.parent / "outside"
    outside.mkdir()
    (folder / ".sandbox").symlink_to(outside)
    refused = _sandwright(folder, "init", "--yes", "--method", "kubernetes")
    assert refused.returncode == 64
    assert "is a symbolic link" in refused.stderr
    assert not list(outside.iterdir())
    assert not (folder / "sandbox.yaml").exists()


@pytest.mark.parametrize(("answer", "status"), [("yes", 0), ("yeah", 3)])
def test_it_asks_on_a_terminal(folder: Path, answer: str, status: int) -> None:
    controller, terminal = pty.openpty()
    words = ["sandwright", "init", "--method", "kubernetes"]
    with subprocess.Popen(
        words, cwd=folder, env=_environ(folder), stdin=terminal, stdout=terminal, stderr=terminal
    ) as child:
        os.close(terminal)
        said = _until(controller, "[y/N] ")
        os.write(controller, f"{answer}\n".encode())
        _drain(controller)
        assert child.wait(WAIT) == status, said
    os.close(controller)
    assert (folder / "sandbox.yaml").exists() is (status == 0)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_it_asks_about_a_review_for_an_agent(folder: Path, answer: str) -> None:
    controller, terminal = pty.openpty()
    words = ["sandwright", "init", "--agent", "claude", "--method", "bwrap"]
    with subprocess.Popen(
        words, cwd=folder, env=_environ(folder), stdin=terminal, stdout=terminal, stderr=terminal
    ) as child:
        os.close(terminal)
        assert "let claude change a copy of the project" in _until(controller, "[y/N] ")
        os.write(controller, f"{answer}\n".encode())
        _until(controller, "[y/N] ")
        os.write(controller, b"y\n")
        _drain(controller)
        assert child.wait(WAIT) == 0
    os.close(controller)
    assert ("\nworkspace: review\n" in (folder / "sandbox.yaml").read_text()) is (answer == "y")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--review",), "\nworkspace: review\n"),
        (("--review", "--agent", "aider"), "\nworkspace: review\n"),
        (("--agent", "aider"), "\n# workspace: review\n"),
    ],
)
def test_a_review_is_proposed(folder: Path, options: tuple[str, ...], line: str) -> None:
    made = _sandwright(folder, "init", "--yes", "--method", "bwrap", *options)
    assert made.returncode == 0, made.stderr
    assert line in (folder / "sandbox.yaml").read_text()


def test_a_method_without_a_review_is_no_choice_for_one(folder: Path) -> None:
    made = _sandwright(folder, "init", "--yes", "--method", "kubernetes", "--review")
    assert made.returncode != 0
    assert "workspace" in made.stderr
    assert not (folder / "sandbox.yaml").exists()


def _until(descriptor: int, text: str) -> str:
    said, until = "", time.monotonic() + WAIT
    while text not in said:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
        assert ready, said
        said += os.read(descriptor, 4096).decode(errors="replace")
    return said


def _drain(descriptor: int) -> None:
    """Read to the end, which a terminal reports with EIO."""
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        return


@pytest.mark.parametrize(
    ("place", "method", "said"),
    [
        (".", "noop", "noop enforces nothing"),
        (".", "bwarp", "there is no method 'bwarp'"),
        ("nowhere", "kubernetes", "nowhere is not a directory"),
        ("/", "kubernetes", "contains your home directory"),
        ("../home", "kubernetes", "contains your home directory"),
        ("..", "kubernetes", "contains your home directory"),
    ],
    ids=["noop", "unknown method", "no directory", "root", "home", "above home"],
)
def test_what_it_refuses(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, method: str, said: str
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent / "home"))
    with pytest.raises(UsageError, match=said):
        propose(folder / place, method=method)
    assert _tree(folder) == set()


def test_a_method_that_cannot_enforce_it_is_an_error(folder: Path) -> None:
    _make(folder, [".github/workflows/ci.yml"])
    with pytest.raises(RenderError, match=r"cannot enforce"):
        check_proposal(
            folder,
            proposal(examine_project(folder), _choice("bwrap")).replace("time: 8h", "pids: 9"),
            "landlock",
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_editors_find_nothing_wrong_with_it(folder: Path, shape: str) -> None:
    _make(folder, SHAPES[shape])
    validator = Draft202012Validator(policy_schema())
    for method in PREVENTED:
        document = yaml.safe_load(proposal(examine_project(folder), _choice(method)))
        assert list(validator.iter_errors(document)) == []


def test_each_finding_has_its_line(folder: Path) -> None:
    names = [
        "pyproject.toml",
        "go.mod",
        ".env",
        "deploy/prod.key",
        ".env.example",
        "id_rsa.pub",
        "Dockerfile",
    ]
    _make(folder, [*names, ".github/workflows/ci.yml", ".gitlab-ci.yml", "node_modules/x/test.pem"])
    (folder / ".git").mkdir()
    found = examine_project(folder)
    assert [each.name for each in found.languages] == ["Python", "Go"]
    assert found.secrets == (".env", "deploy/prod.key")
    assert found.git == "repository"
    policy = _proposed(folder, "bwrap").settings
    assert [item.value for item in policy.items("filesystem.deny")][-2:] == [
        "$PROJECT/.env",
        "$PROJECT/deploy/prod.key",
    ]
    assert [item.value for item in policy.items("filesystem.readonly")] == [
        "$PROJECT/.github/workflows",
        "$PROJECT/.gitlab-ci.yml",
    ]
    text = proposal(found, _choice("bwrap"))
    assert "network.allow=[proxy.golang.org,sum.golang.org]' -- go mod download\n" in text
    assert "\ncache: [pip, go]\n" in text
    assert "Dockerfile: a program that reaches the socket of a container engine controls the host" in text
    assert text.startswith("# yaml-language-server: $schema=.sandbox/policy.schema.json\n")


def test_every_choice_has_a_comment(folder: Path) -> None:
    """A key of a section, or a separate key, has a comment above it."""
    lines = proposal(examine_project(_make(folder, SHAPES["several"])), _choice("bwrap")).splitlines()
    sections = ("filesystem:", "network:", "resources:", "schema: 1")
    for above, line in pairwise(lines):
        key = line.startswith("  ") and line[2].isalpha()
        own = line[:1].isalpha() and line not in sections
        if key or own:
            assert above.strip().startswith("#"), line


def test_a_linked_work_tree_is_told_from_a_repository(folder: Path) -> None:
    assert examine_project(folder).git == ""
    (folder / ".git").write_text("gitdir: /elsewhere/.git/worktrees/p\n")
    assert examine_project(folder).git == "elsewhere"
    assert "The repository lies outside the project and stays read-only" in " ".join(
        proposal(examine_project(folder), _choice("bwrap")).replace("#", "").split()
    )


@pytest.mark.needs("git")
def test_in_a_linked_work_tree_the_grant_to_commit_is_proposed(folder: Path) -> None:
    repository, project = folder / "r", folder.parent / "linked"
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    environ = _environ(folder)
    for words in (
        ("init", "-q", str(repository)),
        ("-C", str(repository), "commit", "-q", "--allow-empty", "-m", "first"),
        ("-C", str(repository), "worktree", "add", "-q", str(project)),
    ):
        process.run(*git, *words, cwd=folder, env=environ, timeout=60)
    assert examine_project(project).git == "worktree"
    proposed = _proposed(project, "bwrap")
    assert [item.value for item in proposed.settings.items("filesystem.git")] == ["worktree"]
    done = _sandwright(project, "init", "--yes", "--method", "kubernetes")
    assert (done.returncode, "sandwright trust" in done.stdout + done.stderr) == (0, True), done.stderr
    (repository / ".git" / "worktrees" / "linked" / "gitdir").write_text("/elsewhere/.git\n")
    assert examine_project(project).git == "elsewhere"  # rendering would refuse the grant


@pytest.mark.needs("git")
def test_what_git_ignores_tells_nothing_of_the_project_but_secrets(folder: Path) -> None:
    process.run("git", "init", "-q", cwd=folder, env=_environ(folder), timeout=60)
    names = ["go.mod", "data/package.json", "data/keys/a.pem", "node_modules/x/b.pem", ".env", "new/.env"]
    _make(folder, [*names, "data/deep/er/c.pem", "web/gone/d.key"])
    (folder / ".gitignore").write_text("/data\nnode_modules\n.env\ngone\n")
    found = examine_project(folder)
    assert [each.name for each in found.languages] == ["Go"]
    assert found.secrets == (".env", "data/deep/er/c.pem", "data/keys/a.pem", "new/.env", "web/gone/d.key")
    assert found.whole


@pytest.mark.needs("git")
def test_a_large_directory_that_git_ignores_hides_nothing_of_the_project(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandwright.init.project.MOST", 50)
    process.run("git", "init", "-q", cwd=folder, env=_environ(folder), timeout=60)
    _make(folder, ["z/package.json", "z.pem", ".gitignore", *(f"data/{number}" for number in range(60))])
    (folder / ".gitignore").write_text("data\n")
    found = examine_project(folder)
    assert ([each.name for each in found.languages], found.secrets) == (["Node"], ("z.pem",))
    assert not found.whole


@pytest.mark.parametrize(
    ("names", "command"),
    [
        (["pyproject.toml", "tests/test_a.py"], "python3 -m pytest"),
        (["setup.py", "test_a.py"], "python3 -m unittest"),
        (["setup.py", "a.py"], ""),
        (["requirements.txt", "mkdocs.yml"], ""),
        (["package.json"], "npm test"),
        (["package.json", "yarn.lock"], "yarn test"),
        (["package.json", "pnpm-lock.yaml"], "pnpm test"),
        (["pom.xml"], "mvn test"),
        (["build.gradle", "gradlew"], "./gradlew test"),
        (["go.mod", "Makefile"], "go test ./..."),
        (["CMakeLists.txt"], ""),
    ],
)
def test_the_command_to_try_fits(folder: Path, names: list[str], command: str) -> None:
    assert (*examine_project(_make(folder, names)).try_out, "")[0] == command


@pytest.mark.parametrize(
    ("text", "makes"),
    [
        ("test: all\n", True),
        ("all:\nlint test:\n\ttrue\n", True),
        ("test ::\n", True),
        ("test := yes\n", False),
        ("tests:\n", False),
        ("\ttest:\n", False),
        (".PHONY: test\n", False),
    ],
)
def test_make_is_tried_where_it_has_a_target_for_that(folder: Path, text: str, *, makes: bool) -> None:
    _make(folder, ["go.mod"])
    (folder / "Makefile").write_text(text)
    assert examine_project(folder).try_out[0] == ("make test" if makes else "go test ./...")


def test_a_makefile_that_is_none_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "Makefile")
    (folder / "GNUmakefile").symlink_to(folder.parent / "outside")
    (folder.parent / "outside").write_text("test:\n")
    assert examine_project(folder).try_out == ()


def test_a_directory_of_a_repository_has_it_elsewhere(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "packages" / "web").mkdir(parents=True)
    assert examine_project(folder).git == "repository"
    assert examine_project(folder / "packages" / "web").git == "elsewhere"


def test_a_virtual_environment_is_not_the_project(folder: Path) -> None:
    _make(folder, ["myenv/pyvenv.cfg", "myenv/cacert.pem", "myenv/lib/x.key", "tls.key"])
    assert examine_project(folder).secrets == ("tls.key",)


@pytest.mark.parametrize(
    ("name", "said"),
    [(".sandbox", ".sandbox is no directory"), (".sandbox/policy.schema.json/x", "schema.json is no file")],
    ids=["a file for the directory", "a directory for the file"],
)
def test_what_is_in_the_way_is_told_before_anything_is_written(folder: Path, name: str, said: str) -> None:
    _make(folder, [name])
    before = _tree(folder)
    refused = _sandwright(folder, "init", "--yes", "--method", "kubernetes")
    assert (refused.returncode, said in refused.stderr) == (64, True), refused.stderr
    assert _tree(folder) == before


def test_names_of_other_kinds_do_not_stop_it(folder: Path) -> None:
    os.mkfifo(folder / "pipe.pem")
    (folder / ".env").mkdir()
    (folder / "pyproject.toml").mkdir()
    (folder / "loop").symlink_to(".")
    found = examine_project(folder)
    assert (found.secrets, found.languages) == (("pipe.pem",), ())


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", [".gitignore", "a/.gitignore", ".git/refs/heads/x"])
def test_git_is_not_asked_where_it_would_wait(folder: Path, name: str) -> None:
    process.run("git", "init", "-q", cwd=folder)
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    os.mkfifo(folder / name)
    start = time.monotonic()
    assert ignored_directories(folder) == frozenset()
    assert time.monotonic() - start < 10


def test_without_any_method_it_still_proposes_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = {"bwrap", "podman", "docker", "runsc", "runc", "crun"}
    here = collect_host()
    without = {name: path for name, path in here.programs.items() if name not in lacking}
    monkeypatch.setattr(chosen, "collect_host", lambda: replace(here, os="linux", programs=without))
    off = Preflight("landlock", "kernel-lacks", "no Landlock")
    monkeypatch.setattr(
        preflights,
        "cached_preflight",
        lambda backend, host: off if backend.name == off.method else backend.preflight(host),
    )
    found = propose(folder)
    assert found.method == "bwrap"
    assert "it did not work: see `sandwright doctor`" in " ".join(found.text.replace("#", "").split())
    assert [note.split(": ")[1] for note in found.notes] == [
        *("podman", "docker", "gvisor", "oci", "landlock", "bwrap"),
    ]


def test_what_holds_less_comes_last_and_says_what_is_accepted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This order does not apply if secrets of the project would have to be given up for it."""

    def known(backend: Backend, host: MachineFacts) -> Preflight:
        return Preflight(
            backend.name, "ready" if backend.name == "landlock" else "container-filter", "no", "do"
        )

    monkeypatch.setattr(preflights, "cached_preflight", known)
    found = propose(folder)
    assert (found.method, found.next_steps[0]) == ("landlock", "sandwright trust")
    assert [line.split(": ")[1] for line in found.text.splitlines() if "- feature: " in line] == [
        "filesystem.protect", "filesystem.attributes", "process.kernel",
    ]  # fmt: skip
    assert "no other users" in found.text, "a program inside can open the user's files to them (chmod)"
    (folder / ".env").write_text("A=b")
    other = propose(folder)
    assert other.method == "bwrap"
    assert any("landlock cannot enforce filesystem.deny-inside" in note for note in other.notes)


def test_the_first_method_that_works_is_taken_and_no_more_are_tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def known(backend: Backend, host: MachineFacts) -> Preflight:
        tried.append(backend.name)
        return Preflight(backend.name, "ready" if backend.name == "podman" else "namespaces-off", "no", "do")

    monkeypatch.setattr(preflights, "cached_preflight", known)
    found = propose(folder)
    assert (found.method, tried) == ("podman", ["bwrap", "podman"])
    assert found.notes == ("does not work here: bwrap: no; do",)
    assert found.next_steps[0] == "sandwright build-images --name debian"


def test_only_seatbelt_gets_fragments(folder: Path) -> None:
    _make(folder, SHAPES["java"])
    assert "java" in (_proposed(folder, "seatbelt").settings.items("macos")[-1].value)
    assert "macos" not in proposal(examine_project(folder), _choice("bwrap"))


def test_names_that_no_policy_can_spell_are_told(folder: Path) -> None:
    _make(folder, ["glob*.pem", "line\nbreak.key", ".env"])
    (folder / os.fsdecode(b"\xff.pem")).write_text("secret")
    found = examine_project(folder)
    assert found.secrets == (".env",)
    assert set(found.strange) == {"glob*.pem", "line\nbreak.key", os.fsdecode(b"\xff.pem")}
    assert "3 more files look like secrets" in proposal(found, _choice("bwrap"))


def test_a_link_is_a_name_and_no_way(folder: Path) -> None:
    outside = _make(folder.parent / "outside", ["other.pem"])
    (folder / "away").symlink_to(outside)
    (folder / ".env").symlink_to("nowhere")
    found = examine_project(folder)
    assert (found.secrets, found.shared) == ((), (".env",))  # denied, a link would be refused


@pytest.mark.needs("git")
def test_what_git_tracks_is_proposed_and_not_denied(folder: Path) -> None:
    """A hidden `.npmrc` disables its protection, and a hidden tracked file breaks `git commit`."""
    _make(folder, [".npmrc", "conf/.env", ".env", "conf/prod.key", "code"])
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    monitor = folder.parent / "monitor"
    for words in (
        ("init", "-q"),
        ("add", ".npmrc", "conf/.env"),
        ("config", "core.fsmonitor", f"touch {monitor}; false"),
    ):
        process.run(*git, *words, cwd=folder, env=_environ(folder), timeout=60)
    monitor.unlink(missing_ok=True)
    found = examine_project(folder)
    assert (found.secrets, found.shared) == ((".env", "conf/prod.key"), (".npmrc", "conf/.env"))
    assert not monitor.exists()  # a stranger's repository runs no program
    text = proposal(found, _choice("bwrap"))
    assert "  # - $PROJECT/.npmrc\n  # - $PROJECT/conf/.env\n" in text
    denied = [item.value for item in _proposed(folder, "bwrap").settings.items("filesystem.deny")]
    assert denied[-2:] == ["$PROJECT/.env", "$PROJECT/conf/prod.key"]
    assert examine_project(folder / "conf").shared == (".env",)
    for name in (".env", "conf/prod.key"):
        (folder / name).unlink()
    assert "  # deny:\n  # - $PROJECT/.npmrc\n" in proposal(examine_project(folder), _choice("bwrap"))
    _proposed(folder, "bwrap")


_INCOMPLETE = """
git init -q && git config user.name n && git config user.email e
mkdir code && touch top code/file && git add . && git commit -qm c
git sparse-checkout init --cone --sparse-index
tree=$(git rev-parse HEAD:code) && rm -f ".git/objects/$(echo "$tree" | cut -c1-2)/$(echo "$tree" | cut -c3-)"
git config core.repositoryformatversion 1 && git config extensions.partialClone origin
git config remote.origin.promisor true && git config remote.origin.url "$1"
git config core.sshCommand "touch ran; false" && git config remote.origin.uploadpack "touch ran; false"
"""
"""Git reads the tree of a directory that its index stores as one, and fetches missing objects."""


@pytest.mark.needs("git")
@pytest.mark.parametrize("url", ["ssh://away.example/code", "/nowhere", "ext::touch% ran"])
def test_of_a_strangers_incomplete_repository_nothing_is_fetched(folder: Path, url: str) -> None:
    process.run("sh", "-euc", _INCOMPLETE, "sh", url, cwd=folder, env=_environ(folder), timeout=60)
    (folder / "sandbox.yaml").write_text("method: bwrap\nfilesystem: {deny: [$PROJECT/code]}\n")
    _make(folder, [".env"])
    assert examine_project(folder).shared == ()
    lint = ("-P", "-c", "from sandwright.cli import main; main()", "lint", "sandbox.yaml")
    process.run(sys.executable, *lint, cwd=folder, env=_environ(folder), timeout=60)
    assert not (folder / "ran").exists()


@given(
    name=st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
        lambda name: name not in (".", "..")
    ),
    languages=st.sets(st.integers(0, len(LANGUAGES) - 1)),
    method=st.sampled_from(PREVENTED),
)
def test_any_name_is_quoted_or_refused(name: str, languages: set[int], method: str) -> None:
    """The text is a policy, and names this path and no other."""
    path = f"deep/{name}.pem"
    if not can_be_named(path):
        return
    chosen = tuple(LANGUAGES[each] for each in sorted(languages))
    text = proposal(ProjectFacts(languages=chosen, secrets=(path,)), _choice(method))
    policy = layer(text).policy
    assert policy.filesystem is not None
    assert policy.filesystem.deny == ("$PROJECT/" + path.replace("$", "$$"),)
    assert policy.method == method


@pytest.mark.parametrize("name", [".env", ".env.production", "prod.env", "tls.key", "id_ed25519", "x.tfvars"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", [".env.example", ".env.sample", "id_rsa.pub", "environment.py", "keys.py", ".envrc"]
)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret(name)


def test_an_operators_floor_is_heard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init` proposes nothing that the managed policy forbids."""
    floor = folder.parent / "floor.yaml"
    floor.write_text("method: docker\n")
    monkeypatch.setattr("sandwright.policy.load.FLOOR", floor)
    from sandwright.errors import DocumentError  # noqa: PLC0415

    with pytest.raises((DocumentError, UsageError), match=r"method|bwrap"):
        check_proposal(folder, proposal(examine_project(folder), _choice("bwrap")), "bwrap")


def test_rendering_is_of_the_text_that_is_shown(folder: Path) -> None:
    _make(folder, SHAPES["python"])
    text = proposal(examine_project(folder), _choice("seatbelt"))
    (folder / "sandbox.yaml").write_text(text)
    rendered = render(Policy.load(folder / "sandbox.yaml").resolve(), "seatbelt")
    assert "profile.sb" in {each.name for each in rendered.artifacts}
