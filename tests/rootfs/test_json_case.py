"""Keys that other programs confuse with another key: Go's encoding/json ignores case, U+017F and U+212A."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sandwright
from sandwright.cli.program import main
from sandwright.documents import fields
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused
from sandwright.rootfs.images.source import list_images, open_image
from support.layouts import HELLO, INDEX, Layout, docker_members, tar_with

FOREIGN = {"s": "\u017f", "S": "\u017f", "k": "\u212a", "K": "\u212a"}
KINDS = {name: value for name, value in vars(fields).items() if name.isupper() and name[0] != "_" and value}


def spellings(name: str) -> Iterator[str]:
    """Spellings that a program which ignores case reads as the same name."""
    foreign = "".join(FOREIGN.get(letter, letter) for letter in name)
    yield from dict.fromkeys((name.swapcase(), name.upper(), name.lower(), name.capitalize(), foreign))


def places(known: fields.Fields, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, below in known.items():
        yield (*above, name)
        yield from places(below, (*above, name)) if below else ()


def document(path: tuple[str, ...], last: str) -> Any:
    made: Any = {last: 1}
    for name in reversed(path[:-1]):
        made = {name: [made]}
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_at_its_place(kind: str) -> None:
    tried = 0
    for path in places(KINDS[kind]):
        parse_json(json.dumps(document(path, path[-1])).encode(), "w", KINDS[kind])
        for other in set(spellings(path[-1])) - {path[-1]}:
            for raw in (
                json.dumps(document(path, other)),
                json.dumps(document(path, other), ensure_ascii=False),
            ):
                with pytest.raises(ArchiveRefused, match="to programs that ignore case"):
                    parse_json(raw.encode(), "w", KINDS[kind])
                tried += 1
    assert tried >= 2 * len(KINDS[kind])


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ('{"annotations": {"A": "1", "a": "2"}, "manifests": [], "schemaVersion": 2}', True),
        ('{"new": 1, "New": 2}', False),
        ('{"mas\u212a": 1, "mask": 2}', False),
        ('{"manifests": [[{"digest": 1, "Digest": 2}]]}', False),
        ('{"manifests": [{"platform": {"os": "linux", "OS": "linux"}}]}', False),
        ('{"other": {"a": 1, "A": 1}}', True),
    ],
)
def test_names_that_we_do_not_know(text: str, *, good: bool) -> None:
    """In objects with known fields, no two names may be equal; maps have their own keys."""
    if good:
        parse_json(text.encode(), "w", fields.INDEX)
    else:
        with pytest.raises(ArchiveRefused, match="ignore case"):
            parse_json(text.encode(), "w", fields.INDEX)


CHANGES = {
    "index": ("index", '"manifests"', '"Manifests": [], "manifests"'),
    "descriptor": ("index", '"digest"', '"Digest": "x", "digest"'),
    "marker": ("marker", '{"', '{"ImageLayoutVersion": "1.0.0", "'),
    "layers": ("manifest", '"layers"', '"Layers": [], "layers"'),
    "layer": ("manifest", '"size"', '"\u017fize": 1, "size"'),
    "user": ("config", '"Cmd"', '"user": "0:0", "Cmd"'),
    "entrypoint alone": ("config", '"Cmd"', '"entrypoint": ["/x"], "Cmd"'),
    "a long s": ("config", '"Cmd"', '"U\u017fer": "0:0", "Cmd"'),
    "diff_ids": ("config", '"diff_ids"', '"Diff_Ids": [], "diff_ids"'),
    "history": ("config", '"rootfs"', '"history": [{"Created_By": "x"}], "rootfs"'),
}


def changed(path: Path, which: str, old: str, new: str) -> Path:
    """A layout with one document changed before its digest is computed."""
    layout = Layout(path)
    manifest = layout.manifest(HELLO)

    def edited(name: str, content: Any) -> bytes:
        text = json.dumps(content)
        return (text.replace(old, new, 1) if name == which else text).encode()

    config = json.loads((path / "blobs/sha256" / manifest["config"]["digest"][7:]).read_bytes())
    manifest["config"] = layout.blob(edited("config", config), manifest["config"]["mediaType"])
    top = layout.blob(edited("manifest", manifest), manifest["mediaType"])
    layout.index(top)
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]}
    (path / "index.json").write_bytes(edited("index", index))
    (path / "oci-layout").write_bytes(edited("marker", {"imageLayoutVersion": "1.0.0"}))
    return path


@pytest.mark.parametrize("name", CHANGES)
def test_an_image_with_two_readings(name: str, tmp_path: Path) -> None:
    path = changed(tmp_path / "i", *CHANGES[name])
    for opened in (open_image, list_images):
        with pytest.raises(ArchiveRefused, match="to programs that ignore case"):
            opened(path)
    for words in (("bundle", str(path), "--bundle", str(tmp_path / "b"), "--output", str(tmp_path)),
                  ("lint-image", str(path))):  # fmt: skip
        assert main(list(words)) == 9
    assert not (tmp_path / "b").exists()


def test_the_control() -> None:
    assert {which for which, _, _ in CHANGES.values()} == {"index", "marker", "manifest", "config"}


def test_an_unchanged_image_opens(tmp_path: Path) -> None:
    assert open_image(changed(tmp_path / "i", "none", "", ""))


@pytest.mark.parametrize("other", ["layers", "config", "repotags"])
def test_an_archive_of_docker(other: str, tmp_path: Path) -> None:
    members = docker_members(HELLO)
    found = dict(members)
    rows = json.loads(found["manifest.json"])
    rows[0][other] = []
    raw = json.dumps(rows).encode()
    path = tar_with(tmp_path / "i.tar", [(n, raw if n == "manifest.json" else c) for n, c in members])
    with pytest.raises(ArchiveRefused, match="to programs that ignore case"):
        open_image(path)


ANSWERS = {
    "rootfs/elf.py": "a note in a program",
    "rootfs/unpacking/store.py": "a record of ours",
    "registry/failure.py": "the text of an error, which is only shown",
    "registry/credentials.py": "the user's own logins",
    "registry/authorization.py": "a token",
    "release/inventories.py": "a record of ours",
    "release/evidence.py": "a record of ours",
    "release/packagefiles.py": "a record of ours",
    "release/packagediff.py": "an SBOM, which decides nothing",
    "release/vulnerabilities.py": "OSV documents, which the user names",
    "image/lockfile.py": "a lock, of which the decoder refuses unknown keys",
    "image/npm.py": "a package-lock.json, which no program in Go reads",
    "image/npmpackage.py": "a package.json, the same",
    "release/npmpackages.py": "a package.json, the same",
    "engines/podman.py": "an answer of the engine",
}
"""Modules about images that read JSON without the check for Go's confusions, each with its document."""


def callers(names: Iterable[str], under: Iterable[str]) -> set[str]:
    root = Path(sandwright.__file__).parent
    return {
        path.relative_to(root).as_posix()
        for room in under
        for path in (root / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in names
    }


def test_documents_of_images_are_read_with_their_names() -> None:
    readers = [f"strictjson.{name}" for name in ("loads", "loads_record", "loads_lenient")]
    rooms = ("rootfs", "registry", "release", "check", "engines", "image", "runtime")
    assert callers(readers, rooms) == set(ANSWERS)


def test_json_has_one_reader() -> None:
    """Only its wrapper calls the standard library's reader."""
    found = callers(("json.loads", "json.load", "json.JSONDecoder"), (".",))
    assert found == {"documents/strictjson.py", "documents/jsontext.py"}
