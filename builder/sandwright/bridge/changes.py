"""Decides a call of `sandwright-changes`: the sandbox chooses the form, and nothing else.

The workspace, the policy and all other arguments are the session's. The program reads no input.
"""

from __future__ import annotations

from collections.abc import Sequence

from sandwright.bridge.grammar import AllowedCall, CommandForm, Refused
from sandwright.launcher.shim_names import CHANGES


class Misused(Refused):
    """A call with other arguments, which no policy allows or denies."""


_FORMS = {(): "", ("--json",): "json", ("--diff",): "diff"}


def changes_call(arguments: Sequence[str]) -> AllowedCall:
    """The call with its form as the only word. Raise Misused for other arguments."""
    form = _FORMS.get(tuple(arguments))
    if form is None:
        raise Misused("usage: sandwright-changes [--json | --diff]")
    return AllowedCall(CHANGES, CommandForm((CHANGES,), {}), plain=(form,))
