"""`cache` in a policy: a project's directories that persist between runs, separate from the home's, until
removal.

Tests of session/persistent.py.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sandwright.policy.facts import persistent_directories
from sandwright.policy.merged import MAX_PERSISTENT
from sandwright.policy.names import CACHES
from session.conftest import Project
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")

HEAD = "schema: 1\nmethod: bwrap\n"
VARIABLES = {
    name: next(each for each, value in variables.items() if "$CACHE" in value)
    for name, variables in CACHES.items()
}


@pytest.fixture
def person(person: Project) -> Project:
    """The same project with all caches."""
    person.policy.write_text(f"{HEAD}cache: [{', '.join(CACHES)}]\n")
    return person


def _place(person: Project, root: Path | None = None) -> Path:
    return Path(persistent_directories(str(person.home), str(root or person.root))["CACHE"])


def test_each_cache_is_there_in_the_next_run_and_needs_no_word(person: Project) -> None:
    script = "".join(
        f'place="${{{variable}#-Dmaven.repo.local=}}"; echo "$place"; mkdir -p "$place"; '
        'cd "$place" || exit; '
        f'test ! -e {name}.x || cat {name}.x; echo "kept {name}" >{name}.x; '
        for name, variable in VARIABLES.items()
    )
    first, second = (person.run("sh", "-c", script) for _ in range(2))
    assert first.returncode == 0, first.stderr
    places = first.stdout.decode().splitlines()
    assert len(VARIABLES) == len(CACHES) > 0
    for name, place in zip(VARIABLES, places, strict=True):
        assert f"{place}/".startswith(f"{_place(person)}/{name}/")
    kept = [line for name, place in zip(VARIABLES, places, strict=True) for line in (place, f"kept {name}")]
    assert second.stdout.decode().splitlines() == kept, second.stderr


def test_only_what_is_listed_can_be_written_and_the_homes_own_caches_not(person: Project) -> None:
    person.policy.write_text(f"{HEAD}cache: [pip]\n")
    (person.home / ".cache" / "pip").mkdir(parents=True)
    (person.home / ".cargo" / "bin").mkdir(parents=True)
    script = 'for each; do touch "$each/x" 2>/dev/null && echo "$each"; done; true'
    place = _place(person)
    others = [place, place / "npm", place.parent, person.home / ".cache/pip", person.home / ".cargo/bin"]
    done = person.run("sh", "-c", script, "sh", *map(str, [place / "pip", *others]))
    assert done.stdout.decode() == f"{place / 'pip'}\n"


def test_another_project_has_a_cache_of_its_own_and_sees_no_other(person: Project) -> None:
    assert person.run("sh", "-c", 'echo secret > "$PIP_CACHE_DIR/x"').returncode == 0
    other = person.home / "q" / "p"
    other.mkdir(parents=True)
    (other / "sandbox.yaml").write_text(person.policy.read_text())
    script = 'echo "$PIP_CACHE_DIR"; ls "$PIP_CACHE_DIR"; cat "$1" 2>/dev/null; ls "$2"'
    words = [str(_place(person) / "pip" / "x"), str(_place(person).parent)]
    done = person.sandwright("run", "--", "sh", "-c", script, "sh", *words, cwd=other)
    own = _place(person, other)
    assert done.stdout.decode() == f"{own}/pip\n{own.name}\n", done.stderr


def test_a_layer_above_sets_the_variable_and_the_preset_does_not(person: Project) -> None:
    person.policy.write_text(
        f"{HEAD}extends: [build]\ncache: [pip, npm]\nenvironment: {{set: {{npm_config_cache: $TMP/n}}}}\n"
    )
    answer = person.sandwright("explain", "env", "PIP_CACHE_DIR")
    assert b"$CACHE/pip (project" in answer.stdout
    answer = person.sandwright("explain", "env", "npm_config_cache")
    assert b"$TMP/n (project" in answer.stdout


def test_caches_are_removed_when_asked_but_not_those_in_use(person: Project) -> None:
    """Go makes its modules' directories read-only; the target of a link in a cache stays."""
    outside = person.home / "outside"
    outside.mkdir(mode=0o555)
    script = """mkdir -p "$GOCACHE" "$GOMODCACHE/m"; ln -s "$1" "$GOCACHE/l"
        touch "$GOMODCACHE/m/x"; chmod -R a-w "$GOMODCACHE" """
    assert person.run("sh", "-c", script, "sh", str(outside)).returncode == 0
    assert person.sandwright("cleanup").stdout.decode() == "nothing is left\n"
    running = person.start("sleep", "60")
    try:
        until(lambda: b"sleep" in person.sandwright("status").stdout, "nothing runs")
        assert person.sandwright("cleanup", "--caches").stdout.decode() == "nothing is left\n"
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=30)
    shown = person.sandwright("cleanup", "--caches", "--dry-run")
    assert shown.stdout.decode() == f"would remove cache {_place(person)}\n"
    done = person.sandwright("cleanup", "--caches")
    assert (done.returncode, done.stdout.decode()) == (0, f"removed cache {_place(person)}\n"), done.stderr
    assert not _place(person).exists()
    assert outside.stat().st_mode & 0o777 == 0o555


def test_a_cache_that_is_too_deep_for_a_path(person: Project) -> None:
    """A program inside can create one, directory by directory."""
    script = 'mkdir "$_"; chdir "$_" for $ENV{PIP_CACHE_DIR}; mkdir("d") && chdir "d" || die for 1 .. 1500'
    assert person.run("perl", "-e", script).returncode == 0
    done = person.sandwright("cleanup", "--caches")
    assert (done.returncode, done.stdout.decode()) == (0, f"removed cache {_place(person)}\n"), done.stderr
    assert not _place(person).exists()


def test_a_home_that_no_policy_can_name_is_told(person: Project) -> None:
    person.environment["HOME"] = f"{person.root}/.."
    done = person.run("true")
    assert done.returncode == 125
    assert b"is no path that a policy can name" in done.stderr


@pytest.mark.parametrize("command", ["run", "verify", "account-setup", "explain"])
@pytest.mark.parametrize("key", ["write", "readonly"])
def test_a_policy_cannot_have_any_number_of_them_made(person: Project, command: str, key: str) -> None:
    """They need no approval."""
    paths = [f"$CACHE/d{number}/e/f" for number in range(MAX_PERSISTENT // 3 + 1)]
    deep = f"$CACHE/{'d/' * (MAX_PERSISTENT + 1)}"
    last = {"run": ("--", "true"), "explain": ("read", "/")}.get(command, ())
    for listed, line in ((paths, 5 + len(paths) - 1), ([deep], 5)):
        lines = "".join(f"    - {path}\n" for path in listed)
        person.policy.write_text(f"{HEAD}filesystem:\n  {key}:\n{lines}")
        ended = person.sandwright(command, *last)
        refused = f"{line}:7: filesystem.{key}[{len(listed) - 1}]: a policy can have {MAX_PERSISTENT} "
        assert refused in ended.stderr.decode(), ended.stderr
        assert not _place(person).exists()


def test_a_policy_can_have_as_many_as_that(person: Project) -> None:
    paths = [f"$CACHE/d{number}/e" for number in range(MAX_PERSISTENT // 2)]
    lines = "".join(f"    - {path}\n" for path in paths)
    person.policy.write_text(f"{HEAD}filesystem:\n  write:\n{lines}")
    ended = person.run("true")
    assert ended.returncode == 0, ended.stderr
    assert len([*_place(person).glob("d*/e")]) == len(paths)
