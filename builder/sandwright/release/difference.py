"""The first difference between two images that should be the same: layer, entry and field."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from sandwright.rootfs.descriptor import shorten_repr
from sandwright.rootfs.images.source import Image, open_image
from sandwright.rootfs.tar.entry import TarEntry, show
from sandwright.rootfs.tar.limits import DEFAULT
from sandwright.rootfs.tar.reader import TarReader
from sandwright.rootfs.unpacking.layers import ImageLayer

_FIELDS = ("kind", "mode", "uid", "gid", "size", "mtime_ns", "link", "device", "xattrs")


def first_difference(published: Path, made: Path, platform: str) -> str:
    """The first difference between the images of two layouts for a platform, in words; empty for none."""
    one, other = (open_image(each, platform=platform) for each in (published, made))
    for number, (left, right) in enumerate(zip_longest(one.layers, other.layers), 1):
        if left is None or right is None:
            return f"{platform}: {len(one.layers)} layers published, {len(other.layers)} made"
        if left.diff_id != right.diff_id:
            return f"{platform}: layer {number}: {_of_layers(left, right)}"
        if left.digest != right.digest:
            what = "the same archive, compressed to other bytes"
            return f"{platform}: layer {number}: {what}: {left.digest} published, {right.digest} made"
    return _of_documents(one, other, platform)


def _of_documents(one: Image, other: Image, platform: str) -> str:
    for what, left, right in (
        ("config", one.config, other.config),
        ("manifest", one.manifest, other.manifest),
    ):
        if found := of_values(left, right, what):
            return f"{platform}: {found}"
    return "" if one.digest == other.digest else f"{platform}: {one.digest} published, {other.digest} made"


def of_values(one: object, other: object, where: str) -> str:
    """The first difference between two JSON values; empty for none."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted(one.keys() | other.keys()):
            if key not in one or key not in other:
                return f"{where}.{key}: only in what was {'published' if key in one else 'made'}"
            if found := of_values(one[key], other[key], f"{where}.{key}"):
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next((found for n, each in pairs if (found := of_values(*each, f"{where}[{n}]"))), "")
    return "" if one == other else f"{where}: {shorten_repr(one)} published, {shorten_repr(other)} made"


def _of_layers(left: ImageLayer, right: ImageLayer) -> str:
    with contextlib.ExitStack() as stack:
        entries = [_layer_entries(stack, each) for each in (left, right)]
        for one, other in zip_longest(*entries):
            if one is None or other is None:
                entry, where = (one[0], "published") if one else (other[0], "made")
                return f"{show(entry.path)}: only in what was {where}"
            if one[0].path != other[0].path:
                return f"{show(one[0].path)} published, where {show(other[0].path)} was made"
            if found := _of_entries(*one, *other):
                return f"{show(one[0].path)}: {found}"
    return "the same entries, in an archive of other bytes"


def _layer_entries(stack: contextlib.ExitStack, layer: ImageLayer) -> Iterator[tuple[TarEntry, str]]:
    """The entries of a layer with the digests of their content."""
    archive = stack.enter_context(layer.archive(DEFAULT, lambda _: None))
    reader = TarReader(archive, name=layer.name, may_be_sparse=True)
    for entry in reader:
        made = hashlib.sha256()
        for chunk in reader.chunks():
            made.update(chunk)
        yield entry, made.hexdigest()


def _of_entries(one: TarEntry, digest: str, other: TarEntry, made: str) -> str:
    for field in _FIELDS:
        left, right = getattr(one, field), getattr(other, field)
        if left != right:
            return f"{field}: {_field(field, left)} published, {_field(field, right)} made"
    return "" if digest == made else f"content: sha256 {digest} published, {made} made"


def _field(name: str, value: Any) -> str:  # noqa: ANN401 - any of an entry's fields
    if name == "mode":
        return f"{value:04o}"
    if name == "kind":
        return str(value.value)
    return show(value) if isinstance(value, bytes) else str(value)
