"""`config.init` in definitions, and the images that are built from them.

Tests of image/documents.py: `config.init` goes in front of commands.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import BuildError, DocumentError
from sandwright.image import init
from sandwright.image.definition import load_definition
from sandwright.image.documents import entrypoint
from sandwright.image.inherit import ImageSettings, inherited
from sandwright.image.sections import Config
from support.smallworld import APP, World, contents, document, small_world

PROGRAM = "/usr/libexec/sandwright-init"
MAPPED = APP.replace("  user: app\n", "  user: root\n  init: app\n")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (Config(), []),
        (Config(entrypoint=("/run", "x")), ["/run", "x"]),
        (Config(init="app"), [PROGRAM, "app"]),
        (Config(init="app", entrypoint=("/run", "x")), [PROGRAM, "app", "/run", "x"]),
        (
            Config(entrypoint=("/new",)).over(Config(init="app", entrypoint=("/run",))),
            [PROGRAM, "app", "/new"],
        ),
        (Config(init="other").over(Config(init="app", entrypoint=("/run",))), [PROGRAM, "other", "/run"]),
    ],
    ids=["nothing", "without", "alone", "in front", "of the base", "over the base's"],
)
def test_what_goes_in_front_of_commands(config: Config, words: list[str]) -> None:
    assert entrypoint(config) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([PROGRAM, "app", "/run"], [PROGRAM, "other", "/run"]),
        ([PROGRAM, "app"], [PROGRAM, "other"]),
        (["/run"], [PROGRAM, "other", "/run"]),
        ([PROGRAM], [PROGRAM, "other", PROGRAM]),
        (None, [PROGRAM, "other"]),
    ],
    ids=["ours and more", "ours", "another's", "no account", "none"],
)
def test_on_a_base_that_has_it_there_is_one(given: Any, words: list[str]) -> None:
    base: ImageSettings = inherited({"config": {"Entrypoint": given}}, "base")
    assert entrypoint(base.under(Config(init="other")).config) == words


def test_a_base_keeps_its_own() -> None:
    base = inherited({"config": {"Entrypoint": [PROGRAM, "app", "/run"], "Cmd": ["x"]}}, "base")
    made = base.under(Config()).config
    assert (entrypoint(made), made.command) == ([PROGRAM, "app", "/run"], ("x",))


ALONE = """\
schema: 1
description: One.
base: {debian: bookworm}
configure: declared
packages: [base-files]
declare: [accounts]
accounts: {users: [{name: app, uid: 1000, gid: 1000}]}
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody", "image.yaml:8:16: config.init: there is no user 'nobody' in 'accounts'"),
        ("1000", "image.yaml:8:16: config.init: must be text, not 1000; put it in quotes"),
        ("a:b", "image.yaml:8:16: config.init: 'a:b' is not a name for a user or group"),
    ],
)
def test_accounts_that_are_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "image.yaml").write_text(f"{ALONE}config: {{init: {name}}}\n")
    with pytest.raises(DocumentError) as caught:
        load_definition(tmp_path)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == message


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = small_world(tmp_path_factory.mktemp("world"))
    world.define("app", MAPPED, {"files/run": "#!run\n"})
    return world


def test_the_program_is_in_the_image(world: World) -> None:
    built = world.build()
    for architecture, machine in (("amd64", 62), ("arm64", 183)):
        manifest = built["app"].images[f"linux/{architecture}"].manifest.digest
        member = contents(built["app"].layout, manifest)[PROGRAM[1:]]
        assert (member.mode, member.uid, member.gid) == (0o755, 0, 0)
        assert member.data == init.program(f"linux/{architecture}")
        assert struct.unpack_from("<H", member.data, 18)[0] == machine
        config = document(built["app"].layout, document(built["app"].layout, manifest)["config"]["digest"])
        assert config["config"]["Entrypoint"] == [PROGRAM, "app", "/bin/run"]
        assert config["config"]["User"] == "0"
    below = built["base"].images["linux/amd64"].manifest.digest
    assert PROGRAM[1:] not in contents(built["base"].layout, below)


def test_it_is_built_again_when_the_program_is_another(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.build()["app"].reason == ""
    monkeypatch.setattr(init, "checksum", lambda: "sha256:another")
    assert world.build()["app"].reason == "it was made from something else"


def test_root_is_no_account_for_commands(world: World, tmp_path: Path) -> None:
    world.define("rooted", MAPPED.replace("init: app", "init: root"), {"files/run": "#!run\n"})
    with pytest.raises(BuildError, match=r"config\.init: 'root' has the uid 0"):
        world.build("rooted")
