"""Definitions of new images: they are valid, and a refused one leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli.commands.table import command_of
from sandwright.cli.image_arguments import catalogue_of
from sandwright.errors import DocumentError, HostError, SandwrightError, UsageError
from sandwright.image.definition import load_catalogue, load_definition
from sandwright.image.template import ALPINE_RELEASE, ALWAYS, LANGUAGES, SUITES, NewImage
from sandwright.resources import data_path
from support.standby import COMMAND as SANDWRIGHT

SHIPPED = data_path("images")


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language(suite: str, language: str, tmp_path: Path) -> None:
    made = NewImage("mine", suite, languages=[language]).write(tmp_path, bases=SHIPPED)
    assert made == load_definition(tmp_path / "mine")
    assert set(LANGUAGES[language].debian) < set(made.packages)
    assert made.smoke.programs[-1] == LANGUAGES[language].program
    assert (made.suite, made.config.user, made.config.command) == (suite, "agent", ("/bin/bash",))


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_of_alpine(language: str, tmp_path: Path) -> None:
    made = NewImage("mine", "alpine", ["curl"], [language]).write(tmp_path, bases=SHIPPED)
    assert (made.distribution, made.suite, made.configure) == ("alpine", f"v{ALPINE_RELEASE}", "declared")
    assert {"busybox", "curl", *LANGUAGES[language].alpine} < set(made.packages)
    assert made.declare == ("package-metadata", "busybox-applets")
    assert (made.smoke.programs[-1], made.config.command) == (LANGUAGES[language].program, ("/bin/sh",))
    assert "LANG" in made.config.environment


def test_the_release_is_that_of_the_shipped_image() -> None:
    shipped = load_definition(SHIPPED / "more" / "alpine-apk")
    assert shipped.suite == f"v{ALPINE_RELEASE}"
    assert set(shipped.packages) < set(ALWAYS["alpine"])


def test_packages_user_and_description(tmp_path: Path) -> None:
    text = 'It\'s a "test": yes # no'
    made = NewImage("mine", "bookworm", ["curl"], user="no", description=text).write(tmp_path, bases=SHIPPED)
    assert (made.description, made.config.user) == (text, "no")
    assert made.packages == ("ca-certificates", "curl", "tzdata", "usr-is-merged")
    assert [(user.name, user.home) for user in made.accounts.users] == [("no", "/home/no")]


def test_on_a_shipped_image(tmp_path: Path) -> None:
    made = NewImage("mine", "workspace").write(tmp_path, bases=SHIPPED)
    assert (made.parent, made.configure, made.packages) == ("workspace", None, ())
    assert list(catalogue_of(str(tmp_path))) == ["debian", "workspace", "mine"]
    with pytest.raises(DocumentError, match="there is no image 'workspace'"):
        load_catalogue(tmp_path)


def test_users_of_a_base(tmp_path: Path) -> None:
    """A build refuses a duplicate name or number: the definition uses the base's user, or another number."""
    own = NewImage("own", "workspace").write(tmp_path, bases=SHIPPED)
    assert (own.accounts.users, own.directories, own.config.user) == ((), (), "agent")
    derived = NewImage("derived", "own", user="second").write(tmp_path, bases=SHIPPED)
    assert [(user.name, user.uid, user.gid) for user in derived.accounts.users] == [("second", 1001, 1001)]
    assert (derived.config.command, derived.smoke.programs) == (None, ()), "as in the base"


def test_an_image_of_that_name_is_not_replaced_by_a_shipped_one(tmp_path: Path) -> None:
    own = NewImage("debian", "trixie").write(tmp_path, bases=SHIPPED)
    NewImage("mine", "debian").write(tmp_path, bases=SHIPPED)
    assert catalogue_of(str(tmp_path))["debian"] == own


def test_on_an_image_of_a_registry(tmp_path: Path) -> None:
    made = NewImage("mine", "docker.io/library/alpine:3.22").write(tmp_path, bases=SHIPPED)
    assert (made.reference, made.config.command) == ("docker.io/library/alpine:3.22", ("/bin/sh",))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (NewImage("mine", "bookwurm"), "there is no image 'bookwurm'"),
        (NewImage("mine", "bookworm", ["a b"]), "packages[0]: 'a b' is not a package"),
        (
            NewImage("mine", "debian", ["curl"]),
            "--package and --language need a distribution as base: bookworm, trixie, alpine",
        ),
        (NewImage("mine", "bookworm", user="A"), "'A' is not a name for a user or group"),
        (NewImage("Mine", "bookworm"), "'Mine' cannot name an image"),
        (NewImage("..", "bookworm"), "'..' cannot name an image"),
    ],
)
def test_what_is_refused_leaves_nothing(new: NewImage, message: str, tmp_path: Path) -> None:
    with pytest.raises(SandwrightError) as caught:
        new.write(tmp_path, bases=SHIPPED)
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/image.yaml").write_text("kept")
    with pytest.raises(UsageError, match=r"mine/image\.yaml exists already"):
        NewImage("mine", "bookworm").write(tmp_path, bases=SHIPPED)
    assert (tmp_path / "mine/image.yaml").read_text() == "kept"


def test_the_command_offers_the_languages() -> None:
    command = command_of("init-image")
    assert command is not None
    (option,) = (each for each in command.options if each.name == "language")
    assert option.choices == tuple(LANGUAGES)


def test_the_command(tmp_path: Path) -> None:
    words = ("init-image", "browser", "--language", "node", "--package", "chromium")
    printed = process.run(*SANDWRIGHT, *words, cwd=tmp_path, timeout=60).text
    assert "  sandwright lock-images browser --images images\n" in printed
    assert load_definition(tmp_path / "images/browser").packages[:2] == ("ca-certificates", "chromium")
    images = ("--images", "images", "--dry-run")
    process.run(*SANDWRIGHT, "init-image", "tools", "--base", "debian", cwd=tmp_path, timeout=60)
    planned = process.run(*SANDWRIGHT, "build-images", "tools", *images, cwd=tmp_path, timeout=60).text
    assert [line.partition(":")[0] for line in planned.splitlines()] == ["debian", "tools"]
    # Locks of shipped images are not in this directory.
    checked = process.run(
        *SANDWRIGHT, "lock-images", "--check", "--images", "images", cwd=tmp_path, timeout=60, check=False
    )
    assert "debian" not in checked.text + checked.stderr


@pytest.mark.parametrize("target", ["there", "absent", "file"])
def test_no_directory_is_made_through_a_link(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a stranger's project `images` can be a link to any directory of yours."""
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "images").symlink_to(tmp_path / target)
    monkeypatch.chdir(tmp_path / "project")
    with pytest.raises(HostError, match="images is a symbolic link to"):
        NewImage("mine", "trixie").write(Path("images", "more"), bases=SHIPPED)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["file", "images", "project", "there"]
