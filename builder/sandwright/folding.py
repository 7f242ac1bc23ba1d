"""Folds names as case-insensitive file systems do (HFS+, APFS, NTFS): case, Unicode normal form."""

from __future__ import annotations

import unicodedata

_IGNORABLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F)),
    *((0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)),
    *((0xE0000, 0xE0FFF),),
)
"""Characters that file systems take for none: HFS+ some (CVE-2014-9390), ext4 and f2fs all, in directories
that ignore case, up to Linux 6.12 (Unicode 16, Default_Ignorable_Code_Point)."""


def folded_name(name: str) -> str:
    """A name that is the same for all names that one of these file systems takes for one."""
    if name.isascii():
        return name.lower().rstrip(". ") or name

    ignored = dict.fromkeys(code for first, last in _IGNORABLE for code in range(first, last + 1))
    plain = unicodedata.normalize("NFD", name.translate(ignored)).casefold().translate(ignored)
    return unicodedata.normalize("NFC", plain).rstrip(". ") or name
