"""`sandwright diff`: its input, its output and its exit status.

Tests of change/group_changes.py.
Tests of change/settings.py: how changed limits, shims and methods are reported.
Tests of cli/changes.py.
Tests of git/command.py: reading a revision starts nothing.
"""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sandwright import process
from sandwright.change.compare import CaseChange, PolicyDifference
from sandwright.change.questions import Case
from sandwright.change.report import ChangeReport, as_markdown, as_sarif, as_text
from sandwright.policy.facts import HostFacts
from sandwright.policy.provenance import PolicySource
from support.standby import COMMAND as SANDWRIGHT

OLD = "schema: 1\nmethod: bwrap\n"
WIDER = f"{OLD}filesystem: {{write: [$PROJECT, ~/work]}}\nenvironment: {{set: {{A_TOKEN: hunter2}}}}\n"


def _diff(project: Path, *words: str) -> process.Result:
    argv = (*SANDWRIGHT, "diff", *words)
    env = {**os.environ, "HOME": str(project.parent), "XDG_CONFIG_HOME": str(project.parent / "config")}
    return process.run(*argv, cwd=project, env=env, timeout=120, check=False)


@pytest.fixture
def project(place: Path) -> Path:
    """A repository with two commits of a policy: the second one is wider."""
    made = place / "project"
    made.mkdir()
    git = ("git", "-C", str(made), "-c", "user.name=x", "-c", "user.email=x@example.org")
    process.run(*git, "init", "--quiet")
    for text, tag in ((OLD, "old"), (WIDER, "new")):
        (made / "sandbox.yaml").write_text(text)
        process.run(*git, "add", "sandbox.yaml")
        process.run(*git, "commit", "--quiet", "--message", tag)
        process.run(*git, "tag", tag)
    return made


@pytest.mark.needs("git")
def test_a_widening_between_revisions(project: Path) -> None:
    files = ("--json", "out/d.json", "--markdown", "out/d.md", "--sarif", "out/d.sarif")
    result = _diff(project, "--revisions", "old", "new", "--method", "bwrap", *files)
    assert result.status == 14, result.stderr
    assert "write ~/work and below" in result.text
    assert "new allows more than old" in result.stderr
    data = json.loads((project / "out/d.json").read_text())
    own = [each for each in data["cases"] if each["subject"] == f"{project.parent}/work"]
    assert [(each["question"], each["widened"], each["methods"]) for each in own] == [
        ("write", True, ["policy"])  # bwrap mounts nothing on a missing path
    ]
    log = json.loads((project / "out/d.sarif").read_text())
    found = log["runs"][0]["results"]
    written = next(each for each in found if "write ~/work" in each["message"]["text"])
    assert (written["ruleId"], written["level"]) == ("policy-widened", "warning")
    assert written["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "sandbox.yaml"},
        "region": {"startLine": 3, "startColumn": 32},
    }
    everything = result.text + "".join(file.read_text() for file in (project / "out").iterdir())
    assert "A_TOKEN" in everything
    assert "hunter2" not in everything


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param(("new:sandbox.yaml", "old:sandbox.yaml"), 0, id="narrower, by git's names"),
        pytest.param(("--revisions", "old"), 14, id="the work tree"),
        pytest.param(("--revisions", "new"), 0, id="the same"),
        pytest.param(("old:./sandbox.yaml", "sandbox.yaml"), 14, id="a revision and a file"),
        pytest.param(("--revisions", "nothing", "new"), 64, id="no such revision"),
        pytest.param(("--revisions", "--output=x", "new"), 64, id="an option"),
        pytest.param(("old:missing.yaml", "sandbox.yaml"), 64, id="no such file"),
        pytest.param(("sandbox.yaml",), 64, id="one policy"),
        pytest.param(("sandbox.yaml", "sandbox.yaml", "--method", "nothing"), 64, id="no such method"),
        pytest.param(("sandbox.yaml", "sandbox.yaml", "--method", "landlock"), 12, id="can enforce neither"),
    ],
)
def test_how_it_ends(words: tuple[str, ...], status: int, project: Path) -> None:
    given = words if "--method" in words else (*words, "--method", "bwrap")
    result = _diff(project, *given)
    assert result.status == status, result.text + result.stderr


@pytest.mark.parametrize("home", ["throwaway", "private"])
@pytest.mark.parametrize(
    ("grant", "told"),
    [
        ("filesystem: {home: HOME, read: [~/work]}", "reads ~/work"),
        ("filesystem: {home: HOME, read: [~/work/file, ~/none]}", "reads ~/none"),
        ("filesystem: {home: HOME}\ncredentials: {cloud: readonly}", "reads ~/.aws"),
        ("filesystem: {home: HOME, read: [/tmp/x]}", "reads /tmp/x"),
    ],
)
def test_what_was_the_sandboxs_own_and_is_the_hosts_is_told(
    project: Path, home: str, grant: str, told: str
) -> None:
    """The path was readable before and is not writable any more, but it was a different directory."""
    (project.parent / "work").mkdir()
    (project.parent / "work/file").touch()
    start = "schema: 1\nmethod: bwrap\nextends: [strict]\n"
    (project / "old.yaml").write_text(f"{start}filesystem: {{home: {home}}}\n")
    (project / "sandbox.yaml").write_text(f"{start}{grant.replace('HOME', home)}\n")
    wider = _diff(project, "old.yaml", "sandbox.yaml", "--method", "bwrap")
    assert (wider.status, told in wider.text) == (14, True), wider.text
    narrower = _diff(project, "sandbox.yaml", "old.yaml", "--method", "bwrap")
    assert f"no longer: {told}" in narrower.text


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("[bwrap, landlock]", "[landlock, bwrap]", 14),
        ("[bwrap, landlock]", "[landlock]", 14),
        ("[bwrap, vm, landlock]", "[bwrap, landlock, vm]", 14),
        ("[bwrap, landlock]", "[bwrap]", 0),
    ],
)
def test_a_method_that_runs_take_first_now_is_compared(
    project: Path, old: str, new: str, status: int
) -> None:
    """Both lists contain the weaker method, which is used if it precedes a method that works here."""
    (project / ".vscode").mkdir()
    names = ("protect", "attributes", "readonly")
    accepted = [f"{{feature: filesystem.{each}, method: landlock, reason: x}}" for each in names]
    accepted.append("{feature: process.kernel, method: landlock, reason: x}")
    for name, methods in (("old.yaml", old), ("sandbox.yaml", new)):
        text = f"schema: 1\nmethods: {methods}\naccept_gaps: [{', '.join(accepted)}]\n"
        (project / name).write_text(text)
    result = _diff(project, "old.yaml", "sandbox.yaml", "--method", "bwrap")
    assert result.status == status, result.text


@pytest.mark.parametrize(
    ("values", "passed", "told"),
    [
        ("{A_TOKEN: none}", "A_TOKEN", "passes A_TOKEN"),
        ("{A_TOKEN: none}", '"A_*"', "passes A_TOKEN"),
        ("{}", "A_TOKEN", "1 newly allowed"),
        ("{}", '"A_*"', "1 newly allowed"),
    ],
)
def test_a_secret_in_place_of_a_value_is_told(project: Path, values: str, passed: str, told: str) -> None:
    """The variable was there before, so no case differs. A change that a case reports is reported once."""
    (project / "old.yaml").write_text(f"{OLD}environment: {{pass: [TERM], set: {values}}}\n")
    (project / "sandbox.yaml").write_text(f"{OLD}environment: {{pass: [TERM, {passed}]}}\n")
    wider = _diff(project, "old.yaml", "sandbox.yaml", "--method", "bwrap")
    assert (wider.status, told in wider.text) == (14, True), wider.text
    assert _diff(project, "sandbox.yaml", "old.yaml", "--method", "bwrap").status == 0


@pytest.mark.needs("git")
@pytest.mark.parametrize("wider", ["{mode: host}", "{mode: proxy, allow: [pypi.org]}"])
def test_policies_with_a_network_are_compared_between_revisions(project: Path, wider: str) -> None:
    """The host's certificates are a text of the rendered policy, and not a filter."""
    (project / "sandbox.yaml").write_text(f"{OLD}network: {{mode: proxy, allow: [example.org]}}\n")
    git = ("git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@example.org")
    process.run(*git, "commit", "--quiet", "--all", "--message", "network")
    (project / "sandbox.yaml").write_text(f"{OLD}network: {wider}\n")
    result = _diff(project, "--revisions", "HEAD", "--method", "bwrap")
    assert result.status == 14, result.stderr


@pytest.mark.parametrize("option", ["--json", "--markdown", "--sarif"])
def test_no_report_goes_through_a_link_of_the_project(project: Path, option: str) -> None:
    (project.parent / "other").mkdir()
    (project / "report").symlink_to("../other")
    ended = _diff(project, "--method", "bwrap", option, "report/file", "sandbox.yaml", "sandbox.yaml")
    assert ended.status not in (0, 1)
    assert "report is a symbolic link to ../other" in ended.stderr
    assert not list((project.parent / "other").iterdir())


@pytest.mark.needs("git")
def test_reading_a_revision_starts_nothing_that_a_repository_names(project: Path) -> None:
    """The command does not fetch either: a repository's configuration can name the program for that."""
    mark = project.parent / "started"
    for name in ("core.fsmonitor", "filter.x.smudge", "diff.x.textconv", "core.sshCommand", "core.pager"):
        process.run("git", "-C", str(project), "config", name, f"touch {mark}")
    (project / ".gitattributes").write_text("* filter=x diff=x\n")
    assert _diff(project, "--revisions", "old", "--method", "bwrap").status == 14
    assert not mark.exists()


@pytest.mark.needs("git")
def test_a_file_of_a_revision_without_an_end(project: Path) -> None:
    """Gigabytes of blanks are small when packed, and a stranger's branch may have them. They are not read."""
    git = ("git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@example.org")
    (project / "sandbox.yaml").write_text(OLD + " " * (100 << 20))
    process.run(*git, "add", "sandbox.yaml")
    process.run(*git, "commit", "--quiet", "--message", "large")
    (project / "sandbox.yaml").write_text(OLD)
    for words in (("--revisions", "old", "HEAD"), ("HEAD:sandbox.yaml", "old:sandbox.yaml")):
        result = _diff(project, *words, "--method", "bwrap")
        assert result.status == 64, result.stderr
        assert "sandbox.yaml is larger than 1048576 bytes" in result.stderr


FILTER = '{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}'


@pytest.mark.needs("git")
@pytest.mark.parametrize("spelled", ["$PROJECT/filter.json", "{project}/up/filter.json"])
def test_the_filter_of_a_revision_is_the_revisions(project: Path, spelled: str) -> None:
    """A change of the filter's file alone changes the allowed calls."""
    git = ("git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@example.org")
    where = project / "up" if "/up/" in spelled else project
    where.mkdir(exist_ok=True)
    (where / "filter.json").write_text(FILTER)
    text = f"{OLD}process: {{seccomp: {spelled.format(project=project)}}}\n"
    (project / "sandbox.yaml").write_text(text)
    process.run(*git, "add", "--all")
    process.run(*git, "commit", "--quiet", "--message", "filter")
    assert _diff(project, "--revisions", "HEAD", "--method", "bwrap").status == 0
    (where / "filter.json").write_text(FILTER.replace('"read"', '"read", "ptrace"'))
    for words in (("--revisions", "HEAD"), ("HEAD:./sandbox.yaml", "sandbox.yaml")):
        result = _diff(project, *words, "--method", "bwrap")
        assert (result.status, "syscall ptrace" in result.text) == (14, True), result.text + result.stderr
    process.run(*git, "add", "--all")
    process.run(*git, "commit", "--quiet", "--message", "wider")
    assert _diff(project, "--revisions", "HEAD~1", "HEAD", "--method", "bwrap").status == 14
    assert _diff(project, "--revisions", "HEAD", "HEAD~1", "--method", "bwrap").status == 0
    (where / "filter.json").rename(where / "wide.json")
    (where / "filter.json").symlink_to("wide.json")
    assert _diff(project, "--revisions", "HEAD~1", "--method", "bwrap").status == 14
    process.run(*git, "add", "--all")
    process.run(*git, "commit", "--quiet", "--message", "a link")
    assert _diff(project, "--revisions", "HEAD", "--method", "bwrap").status == 2  # a link is no filter


@pytest.mark.needs("git", "bwrap")
def test_it_proves(project: Path) -> None:
    result = _diff(project, "--revisions", "old", "new", "--method", "bwrap", "--prove")
    assert result.status == 14, result.stderr
    assert "seen under bwrap: create " in result.text
    assert "EROFS, now ok" in result.text


HOSTILE = "`|</code><script>\n# x\u202e\x1b[31m[a](b)"


def _hostile() -> ChangeReport:
    source = PolicySource("project", HOSTILE, 3, 1, "filesystem.write[0]")
    change = CaseChange(Case("write", f"/{HOSTILE}"), True, ("policy", "bwrap"), HOSTILE, HOSTILE, source)
    found = PolicyDifference(("bwrap",), (change,), (), 1)
    return ChangeReport(HOSTILE, HOSTILE, found, HostFacts(os="linux", home="/home/u", project="/home/u/p"))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.tags.add(tag)


def test_a_line_of_the_report_is_ours(project: Path) -> None:
    """A reader of a log may mistake the beginning of a line for ours, or for a command (`::` on GitHub)."""
    forged = "a\\n::notice::nothing is newly allowed"
    name = f"$PROJECT/{forged}"
    (project / "sandbox.yaml").write_text(
        f'{OLD}filesystem: {{write: [$PROJECT, "/srv/{forged}"], deny: ["{name}"]}}\n'
    )
    said = _diff(project, "old:./sandbox.yaml", "sandbox.yaml", "--method", "bwrap")
    shown = [said.text + said.stderr]
    for words in (("lint", "sandbox.yaml"), ("render",), ("explain", "write", f"{project}/a\n::notice::x")):
        argv = (*SANDWRIGHT, *words)
        ended = process.run(*argv, cwd=project, timeout=120, check=False)
        shown.append(ended.text + ended.stderr)
    assert all("a\\n::notice::" in each for each in shown), shown
    assert not [line for each in shown for line in each.splitlines() if line.lstrip().startswith("::")]


def test_markdown_takes_no_text_for_markup() -> None:
    made = as_markdown(_hostile()).decode()
    read = _Tags()
    read.feed(made)
    assert read.tags == {"code"}
    rows = [line for line in made.splitlines() if line.startswith("| <code>")]
    assert [row.count("|") for row in rows] == [5]
    assert "`" not in made
    assert "[a]" not in made
    assert "\u202e" not in made
    assert "\x1b" not in made


def test_sarif_and_text_show_what_cannot_be_seen() -> None:
    report = _hostile()
    log = json.loads(as_sarif(report, "sandbox.yaml"))
    assert "\u202e" not in log["runs"][0]["results"][0]["message"]["text"]
    assert "write" in "\n".join(as_text(report))
