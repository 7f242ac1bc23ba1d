"""`lint-image` checks every image that matches, and fails when none does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.cli.program import main
from sandwright.errors import IntegrityError
from sandwright.image.existing import read_layout
from sandwright.image.layout import LAYOUT_FILE
from support import layouts, tars
from support.tars import file, folder

KEY = b"-----BEGIN PRIVATE KEY-----\n" + b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" * 2 + b"\n"
LEAKY = tars.archive(folder(b"root", mode=0o700), file(b"root/key", KEY))
GOOD = tars.archive(folder(b"srv"))
ATTESTATION = "application/vnd.in-toto+json"


def check(path: Path, *words: str, report: Path) -> tuple[int, list[dict[str, object]]]:
    """The exit status, and the images of the report; none if no report was written."""
    report.unlink(missing_ok=True)
    status = main(["lint-image", str(path), "--json", str(report), *words])
    return status, json.loads(report.read_bytes())["images"] if report.exists() else []


def _pulled(path: Path, **more: object) -> Path:
    """A layout as `pull-image` writes it: its marker without a blank, one manifest, named `latest`."""
    layout = layouts.Layout(path)
    (path / "oci-layout").write_bytes(b'{"imageLayoutVersion":"1.0.0"}')
    return layout.index(layouts.named(layout.image(LEAKY, **more), "latest"))  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [(), ("--ref", "latest"), ("--platform", "linux/amd64")])
def test_one_manifest_named_latest(words: tuple[str, ...], tmp_path: Path) -> None:
    status, images = check(_pulled(tmp_path / "i"), *words, report=tmp_path / "r.json")
    assert (status, len(images)) == (12, 1)
    assert "secret/content" in json.dumps(images)


def _variants(layout: layouts.Layout) -> Path:
    arm = [
        layout.image(
            raw, arch="arm", change_config={"variant": v}, platform=layouts.platform("arm", variant=v)
        )
        for raw, v in ((GOOD, "v7"), (LEAKY, "v6"))
    ]
    return layout.index(layout.document({"schemaVersion": 2, "mediaType": layouts.INDEX, "manifests": arm},
                                        layouts.INDEX, annotations={layouts.REF: "latest"}))  # fmt: skip


def _two_of_a_platform(layout: layouts.Layout) -> Path:
    two = [layout.image(raw, platform=layouts.platform("amd64")) for raw in (GOOD, LEAKY)]
    return layout.index(layout.document({"schemaVersion": 2, "mediaType": layouts.INDEX, "manifests": two},
                                        layouts.INDEX, annotations={layouts.REF: "latest"}))  # fmt: skip


def _two_references(layout: layouts.Layout) -> Path:
    return layout.index(layouts.named(layout.image(GOOD), "latest"), layouts.named(layout.image(LEAKY), "v2"))


def _called_an_attestation(layout: layouts.Layout) -> Path:
    unknown = layouts.platform("unknown", "unknown")
    return layout.index(layout.image(GOOD), layout.image(LEAKY, platform=unknown))


def _called_windows(layout: layouts.Layout) -> Path:
    return layout.index(
        layout.image(GOOD), layout.image(LEAKY, platform=layouts.platform("amd64", "windows"))
    )


MAKERS: dict[str, Callable[[layouts.Layout], Path]] = {
    "two variants": _variants,
    "two of a platform": _two_of_a_platform,
    "two references": _two_references,
}


@pytest.mark.parametrize("name", MAKERS)
def test_all_that_fit_are_looked_at(name: str, tmp_path: Path) -> None:
    path = MAKERS[name](layouts.Layout(tmp_path / "i"))
    (path / "oci-layout").write_bytes(b'{"imageLayoutVersion":"1.0.0"}')
    status, images = check(path, report=tmp_path / "r.json")
    assert (status, len(images)) == (12, 2)
    assert sum("secret/content" in json.dumps(each) for each in images) == 1


@pytest.mark.parametrize("make", [_called_an_attestation, _called_windows])
def test_a_label_hides_no_image(make: Callable[[layouts.Layout], Path], tmp_path: Path) -> None:
    """An annotation in an index does not prevent the check of a manifest."""
    status, images = check(make(layouts.Layout(tmp_path / "i")), report=tmp_path / "r.json")
    assert status in (9, 12)
    assert status == 9 or "secret/content" in json.dumps(images)


def test_statements_and_other_systems_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = layouts.Layout(tmp_path / "i")
    statement = layout.manifest()
    statement["layers"] = [layout.blob(b"{}", ATTESTATION)]
    unknown = layout.document(statement, layouts.MANIFEST, platform=layouts.platform("unknown", "unknown"))
    windows = layout.image(
        GOOD, change_config={"os": "windows"}, platform=layouts.platform("amd64", "windows")
    )
    _, images = check(layout.index(layout.image(LEAKY), unknown, windows), report=tmp_path / "r.json")
    assert len(images) == 1
    assert "windows/amd64" in capsys.readouterr().out
    only = layouts.Layout(tmp_path / "w")
    windows = only.image(GOOD, change_config={"os": "windows"}, platform=layouts.platform("amd64", "windows"))
    assert check(only.index(windows), report=tmp_path / "r.json")[0] == 12
    assert "no image was checked: windows/amd64" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--ref", "v3"), ("--platform", "linux/arm64"), ("--runtime", "runc")])
def test_what_is_named_and_not_there(words: tuple[str, ...], tmp_path: Path) -> None:
    assert check(_pulled(tmp_path / "i"), *words, report=tmp_path / "r.json") == (64, [])


def test_a_reference_selects(tmp_path: Path) -> None:
    path = _two_references(layouts.Layout(tmp_path / "i"))
    images = check(path, "--ref", "v2", report=tmp_path / "r.json")[1]
    assert "secret/content" in json.dumps(images)
    assert len(images) == 1


def _without_children(layout: layouts.Layout) -> Path:
    return layout.index(layouts.named(layout.image(GOOD), "latest"))


def _named_twice(layout: layouts.Layout) -> Path:
    two = [layout.image(raw, platform=layouts.platform("amd64")) for raw in (GOOD, LEAKY)]
    documents = [{"schemaVersion": 2, "mediaType": layouts.INDEX, "manifests": [each]} for each in two]
    return layout.index(*(layouts.named(layout.document(d, layouts.INDEX), "latest") for d in documents))


@pytest.mark.parametrize("make", [_without_children, _named_twice, _two_of_a_platform, _variants])
def test_what_is_no_layout_of_ours(make: Callable[[layouts.Layout], Path], tmp_path: Path) -> None:
    """A builder, exporter or publisher reads one image of each platform, and not the last of several."""
    path = make(layouts.Layout(tmp_path / "i"))
    (path / "oci-layout").write_bytes(LAYOUT_FILE)
    with pytest.raises(IntegrityError, match="not a whole image layout"):
        read_layout(path)


def test_an_archive_of_docker_with_a_second_image(tmp_path: Path) -> None:
    """Docker reads `manifest.json`, others `index.json`: an image that only one of them has is refused."""
    layout = layouts.Layout(tmp_path / "i")
    layout.index(layout.image(GOOD), layouts.named(layout.image(tars.archive(folder(b"opt"))), "b"))
    hidden = layout.manifest(LEAKY)
    names = [f"blobs/sha256/{each['digest'][7:]}" for each in (hidden["config"], *hidden["layers"])]
    rows = [{"Config": names[0], "Layers": names[1:], "RepoTags": ["x:1"]}]
    (layout.path / "manifest.json").write_text(json.dumps(rows))
    assert check(layout.path, report=tmp_path / "r.json")[0] == 9
