"""Images that ship, and are built only if they are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandwright.cli.image_arguments import catalogue_of
from sandwright.cli.program import main
from sandwright.errors import ToolMissing, UsageError
from sandwright.image.build import SkippedImage, build_images
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock
from sandwright.image.mirrors import Mirrors
from sandwright.resources import data_path


def test_dev_is_there_for_who_names_it_only() -> None:
    assert "dev" not in catalogue_of("")
    assert {"dev", "proxy"} <= set(catalogue_of("", ["dev", "proxy"]))
    with pytest.raises(UsageError, match="there is no image 'dve'"):
        catalogue_of("", ["dve"])
    with pytest.raises(UsageError, match="there is no image 'dev'"):
        catalogue_of(str(data_path("images")), ["dev"])


MIRROR = "https://mirror.example/alpine"
SETTINGS = {
    "none": ("", "", "", "alpine"),
    "option": (f"alpine={MIRROR}", "", "", "alpine-apk"),
    "variable": ("", f"debian=https://a.example/debian, alpine={MIRROR}", "", "alpine-apk"),
    "one address": ("", f"{MIRROR}/", "", "alpine-apk"),
    "apk": ("", "", f"{MIRROR}/v3.23/main\n", "alpine-apk"),
    "variable without Alpine": ("", "https://mirror.example/debian", f"{MIRROR}/v3.23/main\n", "alpine"),
    "option without Alpine": ("https://mirror.example/debian", MIRROR, "", "alpine"),
}
"""Option, variable, apk's repositories, and the built one of the two images."""


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())
def test_alpine_is_made_of_packages_where_a_mirror_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: tuple[str, str, str, str]
) -> None:
    """A machine that reaches a mirror need not reach a registry."""
    option, variable, repositories, chosen = setting
    (tmp_path / "repositories").write_text(repositories)
    monkeypatch.setattr("sandwright.image.mirrors.APK_REPOSITORIES", tmp_path / "repositories")
    monkeypatch.setenv("SANDWRIGHT_MIRROR", variable)
    assert {name for name in catalogue_of("", mirror=option) if "alpine" in name} == {chosen}
    for other in (
        catalogue_of(""),
        catalogue_of(str(data_path("images")), mirror=option),
    ):
        assert "alpine-apk" not in other
        assert "alpine" in other
    assert "alpine" in catalogue_of("", ["alpine"], mirror=option)


def test_the_others_are_built_without_the_extra(tmp_path: Path) -> None:
    """Signatures of Alpine's packages need `cryptography`, which the extra `release` installs."""

    def relock(_definition: ImageDefinition) -> Lock:
        raise ToolMissing("cryptography", "pip install 'sandwright[release]'")

    catalogue = {"alpine-apk": catalogue_of("", ["alpine-apk"])["alpine-apk"]}
    supply = Fetcher(Cache(tmp_path / "cache"), Mirrors({}), relock)
    left_out: list[SkippedImage] = []
    built = build_images(catalogue, output=tmp_path / "out", supply=supply, leave_out=left_out.append)
    assert built == []
    assert [(each.name, each.reason) for each in left_out] == [("alpine-apk", "cryptography is missing")]
    assert "sandwright[release]" in left_out[0].detail
    with pytest.raises(ToolMissing):
        build_images(catalogue, output=tmp_path / "out", supply=supply)


def test_the_commands_choose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SANDWRIGHT_MIRROR", "")
    words = ["build-images", "--dry-run", "--output", str(tmp_path)]
    assert main([*words, "--mirror", f"alpine={MIRROR}"]) == 0
    told = capsys.readouterr().out
    assert "alpine-apk" in told
    assert not re.search(r"\balpine(?!-apk)\b(?!=)", told)
    assert main([*words, "--mirror", f"alpine={MIRROR}", "--frozen"]) == 0
    assert "alpine-apk" not in capsys.readouterr().out
