"""Selects images of a source by name and platform, without guessing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sandwright.errors import UsageError
from sandwright.rootfs.descriptor import Platform
from sandwright.visible import one_line


@dataclass(frozen=True)
class ImageCandidate:
    """An image that may be meant. `names` are its references, `digests` those of the indexes above it."""

    digest: str
    platform: Platform
    names: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()

    def answers_to(self, ref: str) -> bool:
        """Whether `ref` is a digest or name of the image; registry and the tag `latest` may be left out."""
        if ref in (self.digest, *self.digests):
            return True
        return any(
            name == each or name.endswith(f"/{each}")
            for each in (ref, f"{ref}:latest")
            for name in self.names
        )


def choose(
    candidates: Iterable[ImageCandidate], platform: Platform | None, ref: str | None, source: str
) -> str:
    """The digest of the one matching image. Raise UsageError, listing the images, for none or several."""
    everything = _merged(candidates)
    fitting = [each for each in everything if ref is None or each.answers_to(ref)]
    if platform is not None:
        fitting = _matching_platform(fitting, platform)
    if len(fitting) == 1:
        return fitting[0].digest
    _require_any(fitting, everything, platform, ref, source)
    request = _describe_request(platform, ref)
    hint = (
        "name a platform"
        if len({each.platform for each in fitting}) > 1
        else "name one by its reference or digest"
    )
    raise UsageError(
        f"{source}: several images{' ' if request else ''}{request}; {hint}: {_list_candidates(fitting)}"
    )


def choose_all(
    candidates: Iterable[ImageCandidate], platform: Platform | None, ref: str | None, source: str
) -> list[ImageCandidate]:
    """Every matching image, each digest once. Raise UsageError, listing the images, for none.

    A platform without a variant fits all variants of its architecture.
    """
    everything = _merged(candidates)
    fitting = [each for each in everything if ref is None or each.answers_to(ref)]
    if platform is not None:
        system = (platform.os, platform.architecture)
        fitting = [
            each
            for each in fitting
            if (each.platform.os, each.platform.architecture) == system
            and platform.variant in ("", each.platform.variant)
        ]
    _require_any(fitting, everything, platform, ref, source)
    return fitting


def _require_any(
    fitting: Sequence[ImageCandidate],
    everything: Sequence[ImageCandidate],
    platform: Platform | None,
    ref: str | None,
    source: str,
) -> None:
    if not fitting:
        request = _describe_request(platform, ref) or "in it"
        raise UsageError(
            f"{source}: no image {request}; it has {_list_candidates(everything) or 'none at all'}"
        )


def _describe_request(platform: Platform | None, ref: str | None) -> str:
    return " ".join(([f"named {ref!r}"] if ref else []) + ([f"for {platform}"] if platform else []))


def _matching_platform(candidates: Sequence[ImageCandidate], platform: Platform) -> list[ImageCandidate]:
    """The candidates of the platform; without any, and if no variant was requested, those of its variants."""
    exact = [each for each in candidates if each.platform == platform]
    if exact or platform.variant:
        return exact
    return [
        each
        for each in candidates
        if (each.platform.os, each.platform.architecture) == (platform.os, platform.architecture)
    ]


def _merged(candidates: Iterable[ImageCandidate]) -> list[ImageCandidate]:
    """One candidate a digest: an image that is there under two names is still one image."""
    found: dict[str, ImageCandidate] = {}
    for each in candidates:
        earlier = found.get(each.digest, each)
        names = tuple(dict.fromkeys((*earlier.names, *each.names)))
        digests = tuple(dict.fromkeys((*earlier.digests, *each.digests)))
        found[each.digest] = ImageCandidate(each.digest, earlier.platform, names, digests)
    return list(found.values())


def _list_candidates(candidates: Sequence[ImageCandidate]) -> str:
    lines = [
        one_line(f"{each.platform} {' '.join(each.names) or 'without a name'} ({each.digest[:19]}…)")
        for each in candidates
    ]
    return "; ".join(sorted(lines)[:20]) + ("; …" if len(lines) > 20 else "")
