"""A command as its project's own account, for real: its user, its access, and its end.

Tests of launcher/source/privileges.c.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.launcher.run_document import RunDocument
from sandwright.session.events import DeniedCall, RunDenied, read_events
from session.conftest import SANDWRIGHT
from support import plantedcalls
from support.ownedprojects import POLICY, WAIT, Project
from support.processtrees import naming
from support.rundocuments import launching
from support.waiting import until

STATUS = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"]


def _status(said: str) -> dict[str, str]:
    lines = (line.split(":", 1) for line in said.splitlines() if ":" in line)
    return {name: value.strip() for name, value in lines if name in STATUS}


def test_it_is_the_account_and_nothing_more(project: Project) -> None:
    said = project.run("cat", "/proc/self/status")
    found, uid = _status(said.stdout.decode()), str(project.uid)
    assert said.returncode == 0, said.stderr
    assert found["Uid"].split() == [uid] * 4
    assert len(set(found["Gid"].split())) == 1
    assert found["Gid"].split()[0] != "0"
    assert found["Groups"] == ""
    assert {found[name] for name in STATUS if name.startswith("Cap")} == {"0" * 16}
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


def test_what_it_reaches(project: Project) -> None:
    """Each denial is tested beside an allowed access."""
    script = f"""
        cat script >/dev/null && echo reads
        echo more >made && echo writes
        cat .env 2>/dev/null || echo hidden
        echo x 2>/dev/null >LICENSE || echo read-only
        echo x 2>/dev/null >.git/hooks/pre-commit || echo protected
        echo x 2>/dev/null >sandbox.yaml || echo policy
        cat {project.home}/.ssh/config 2>/dev/null || echo closed
        touch /usr/made /etc/made 2>/dev/null || echo system
        echo x >/tmp/own && [ "$(ls /tmp)" != "" ] && [ ! -e {project.home}/run ] && echo private
        echo x >~/own && [ "$HOME" = {project.account.home} ] && echo home
    """
    said = project.run("sh", "-c", script)
    assert said.stdout.decode().split() == [
        "reads", "writes", "hidden", "read-only", "protected", "policy", "closed", "system", "private",
        "home",
    ], said.stderr  # fmt: skip
    assert (project.root / "made").read_text() == "more\n"
    assert (project.root / "made").stat().st_uid == project.uid
    assert (project.root / "LICENSE").read_text() == "as it was\n"
    assert Path(project.account.home).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("way", ["run", "launch"])
def test_files_as_input_and_output(project: Project, tmp_path: Path, way: str) -> None:
    """The shell writes at its position in the file; no file behind a descriptor is written or read."""
    given, shown = tmp_path / "given", tmp_path / "shown"
    given.write_text("given\n")
    shown.write_text("a secret\n")
    for path in (given, shown):
        path.chmod(0o666)
    words = [*SANDWRIGHT, "run", "--"] if way == "run" else [str(project.rendered())]
    inside = """
        cat; echo changed >/proc/self/fd/0
        timeout 1 head -n 1 /proc/self/fd/1 | tr a-z A-Z
        echo inside; exit 5
    """
    script = '(echo b; "$@"; echo $?) <"$0" >>"$SHOWN"'
    environ = {**project.environ, "SHOWN": str(shown)}
    ended = subprocess.run(
        ["bash", "-c", script, given, *words, "sh", "-c", inside],
        cwd=project.root, env=environ, capture_output=True, timeout=WAIT, check=False,
    )  # fmt: skip
    assert given.read_text() == "given\n", ended.stderr
    assert shown.read_text() == "a secret\nb\ngiven\ninside\n5\n", ended.stderr


def test_there_is_no_network_but_its_own(project: Project) -> None:
    said = project.run(
        "sh", "-c", "cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /sys/class/net/lo/operstate || :"
    )
    assert said.stdout.decode().split()[0] == "lo"
    assert len([line for line in said.stdout.decode().splitlines() if line.startswith(" ")]) == 1


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 42"], 42),
        (["sh", "-c", "exit 124"], 124),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["./script"], 0),
        (["./LICENSE"], 126),
        (["/usr"], 126),
        (["no-such-program"], 127),
        (["./no-such-program"], 127),
        ([], 125),
    ],
    ids=[
        "0", "42", "124", "KILL", "TERM", "script", "no-program", "directory", "no-name", "no-path",
        "nothing",
    ],
)  # fmt: skip
def test_it_exits_as_the_command_does(project: Project, words: list[str], status: int) -> None:
    assert project.run(*words).returncode == status


def test_words_and_bytes_pass_as_they_are(project: Project) -> None:
    words = ["", "a b", "*", "$HOME", "'", '"', "line\nbreak", "--", "-n", "ä", "\\"]
    assert project.run("printf", "%s\\0", *words).stdout.decode().split("\0")[:-1] == words
    data = bytes(range(256)) * 300
    assert project.run("cat", stdin=data).stdout == data


def test_only_variables_that_pass_arrive(project: Project) -> None:
    """This holds however they are spelled, and for more than a pipe holds."""
    text = f'{POLICY}environment: {{pass: [KEPT*, PATH, HOME], set: {{SET: "it\'s"}}}}\n'
    long = "x" * 100_000
    given = {
        "KEPT": "a\nB=b 'c\" $HOME \\n\tä",
        "KEPT_LONG": long,
        "LOST": "lost",
        "LD_PRELOAD": "",
        "PERL5OPT": "-Mx",
    }
    launcher = project.rendered(text)
    said = project.run("env", "-0", launcher=launcher, environ=given)
    found = dict(each.split("=", 1) for each in said.stdout.decode().split("\0") if each)
    assert found["KEPT"] == given["KEPT"]
    assert found["KEPT_LONG"] == long
    assert found["SET"] == "it's"
    assert found["HOME"] == project.account.home
    assert not {"LOST", "LD_PRELOAD", "PERL5OPT", "XDG_RUNTIME_DIR"} & found.keys()


def test_time_is_up(project: Project) -> None:
    launcher = project.rendered(f"{POLICY}resources: {{time: 4s}}\n")
    said = project.run("sh", "-c", "setsid sleep 3141 & sleep 3142", launcher=launcher)
    assert said.returncode == 124
    assert b"the time limit (resources.time) was reached" in said.stderr
    assert naming("sleep\0314") == {}
    assert project.run("true", launcher=launcher).returncode == 0


def test_limits(project: Project) -> None:
    launcher = project.rendered(f"{POLICY}resources: {{pids: 20, files: 64}}\n")
    said = project.run(
        "sh",
        "-c",
        "ulimit -n; ulimit -Hn; ulimit -n 65 2>/dev/null || echo kept; ulimit -c",
        launcher=launcher,
    )
    assert said.stdout.decode().split() == ["64", "64", "kept", "0"]
    forks = "i=0; while [ $i -lt 40 ]; do sleep 30 & i=$((i + 1)); done"
    said = project.run(
        "bash",
        "-c",
        f"{{ {forks}; }} 2>&1 | grep -m1 -o 'Resource temporarily unavailable'",
        launcher=launcher,
    )
    assert b"Resource temporarily unavailable" in said.stdout
    assert project.run("sh", "-c", "sleep 0 & wait; echo fine", launcher=launcher).stdout == b"fine\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_nothing_outlives_the_launcher(project: Project, number: signal.Signals) -> None:
    word = f"{os.getpid()}{number.value}271828"
    launcher = project.rendered()
    script = f"setsid sleep {word} & echo begun; sleep {word}"
    with subprocess.Popen(
        [launcher, "sh", "-c", script], stdout=subprocess.PIPE, cwd=project.root, env=project.environ
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"begun\n"
        started.send_signal(number)
    until(lambda: naming(word) == {}, "it goes on")
    placeholders = (project.root / ".bashrc", project.root / ".git/commondir")
    until(lambda: not any(path.exists() for path in placeholders), "covers stay")


def test_artifacts_are_what_was_rendered(project: Project) -> None:
    for name in ("plan", "seccomp.bpf", "mounts"):
        launcher = project.rendered()
        assert project.run("true", launcher=launcher).returncode == 0
        with launcher.with_name(name).open("ab") as file:
            file.write(b"\n")
        said = project.run("true", launcher=launcher)
        assert (said.returncode, b"changed after it was rendered" in said.stderr) == (125, True), name


def test_what_appeared_since_is_told(project: Project) -> None:
    """A denied name outside the project, where no placeholder is put."""
    elsewhere = project.home.parent / "shared"
    elsewhere.mkdir()
    text = POLICY.replace("deny: [", f"deny: [{elsewhere}/secret, ")
    launcher = project.rendered(text)
    assert project.run("true", launcher=launcher).returncode == 0
    (elsewhere / "secret").write_text("x")
    said = project.run("true", launcher=launcher)
    assert said.returncode == 125
    assert b"appeared after this was rendered" in said.stderr


def test_two_runs_at_once_do_not_see_each_other(project: Project) -> None:
    launcher = project.rendered()
    one = "echo x >/tmp/one; echo begun; cat"
    with subprocess.Popen(
        [launcher, "sh", "-c", one],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=project.root, env=project.environ,
    ) as started:  # fmt: skip
        assert started.stdout is not None
        assert started.stdin is not None
        assert started.stdout.readline() == b"begun\n"
        two = "echo x >/tmp/two; ls /tmp; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
        said = project.run("sh", "-c", two, launcher=launcher).stdout.decode()
        started.stdin.close()
    assert "/tmp/two" in said
    assert "/tmp/one" not in said
    assert "one" not in said.split()


def test_another_project_is_closed(project: Project, made: Callable[[], Project]) -> None:
    """Each account reads its own workspace, and neither the other's workspace nor its home."""
    other = made()
    other.set_up()
    (other.root / "word").write_text("other\n")
    for one, two in ((project, other), (other, project)):
        denied = f"cat {two.root}/sandbox.yaml; ls {two.root} {two.account.home}; touch {two.root}/x"
        script = f"{denied}; cat sandbox.yaml"
        said = one.run("sh", "-c", script)
        assert said.stdout.decode() == POLICY
        assert said.stderr.decode().count("Permission denied") == 4, said.stderr
    assert other.run("cat", "word").stdout == b"other\n"


def test_a_link_where_something_is_mounted_is_refused(made: Callable[[], Project]) -> None:
    """No file of the host is shown or covered in place of the link."""
    other = made()
    other.set_up()
    launcher = other.rendered()
    assert other.run("true", launcher=launcher).returncode == 0
    (other.root / "LICENSE").unlink()
    (other.root / "LICENSE").symlink_to(other.home / ".ssh/config")
    said = other.run("cat", "LICENSE", launcher=launcher)
    assert said.returncode == 125
    assert said.stdout == b""


def test_what_was_refused_is_written(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "denials"
    launcher = Path(launching(project.rendered(), RunDocument(denials=str(file))))
    said = project.run("unshare", "--user", "true", launcher=launcher)
    assert b"Operation not permitted" in said.stderr
    event = next(read_events(file))
    assert isinstance(event, RunDenied)
    assert isinstance(event.what, DeniedCall)
    assert (event.what.error, event.count, event.what.filter) == (1, 1, 0)
    file.unlink()
    assert project.run("true", launcher=launcher).returncode == 0
    assert not file.exists(), "nothing was refused"


@pytest.mark.needs("cc")
def test_planted_calls_are_told(project: Project, tmp_path: Path) -> None:
    file, program = tmp_path / "denials", project.root / "planted"
    plantedcalls.build(program)
    launcher = Path(launching(project.rendered(), RunDocument(denials=str(file))))
    said = project.run(str(program), *plantedcalls.arguments(), launcher=launcher)
    assert said.returncode == 0, said.stderr
    assert plantedcalls.check(file) == len(plantedcalls.PLANTED)
