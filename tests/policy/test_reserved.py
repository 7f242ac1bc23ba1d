"""sandwright's own paths are part of every resolved policy, and no method leaves one of them open.

Tests of policy/installation.py.
Tests of policy/own_directories.py.
Tests of policy/reserved.py.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sandwright import user_dirs
from sandwright.api import Policy
from sandwright.change import policies
from sandwright.errors import DocumentError, HostError, RenderError
from sandwright.inputs import LiveHost
from sandwright.methods import registry
from sandwright.policy import installation
from sandwright.policy import resolve as resolving
from sandwright.policy.collect import collect_facts
from sandwright.policy.declaration import Declaration, Support
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.load import layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.names import FEATURES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.trusted import trusted_files
from sandwright.render.rendered import render_with
from sandwright.session.prepare import load_layers, resolved_here, resolved_with
from sandwright.session.request import RunRequest
from sandwright.verify import command, matrix

POLICY = (
    "schema: 1\nmethod: bwrap\nextends: []\n"
    "filesystem: {read: [/usr], write: [$PROJECT, ~/.cache, ~/.local]}\n"
)
HIDDEN = (".cache/sandwright/sessions", ".cache/sandwright/run", ".local/state/sandwright/keys")

Made = Callable[[Path], ResolvedPolicy]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    folder = home / "p"
    folder.mkdir(parents=True)
    (folder / "sandbox.yaml").write_text(POLICY)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "run").mkdir(mode=0o700)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "SANDWRIGHT_CACHE", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


def _verified(project: Path) -> ResolvedPolicy:
    """The policy that `verify` resolves before it does anything else."""
    found: list[ResolvedPolicy] = []

    def verify(resolve: Callable[..., ResolvedPolicy], *_: object, **__: object) -> object:
        found.append(resolve(["network.mode=none"]))
        raise RenderError("enough")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "verify", verify)
        with pytest.raises(RenderError, match="enough"):
            command.verify_policy(_request(project), "bwrap")
    return found[0]


def _request(project: Path) -> RunRequest:
    return RunRequest(["true"], policy=str(project / "sandbox.yaml"))


def _here(project: Path) -> ResolvedPolicy:
    return resolved_here(load_layers(_request(project), LiveHost()), _request(project), LiveHost())


def _compared(project: Path) -> ResolvedPolicy:
    file = str(project / "sandbox.yaml")
    return policies.read_pair(file, file, policy="", revisions=False, environ={}).resolve()[1]


def _plain(project: Path) -> ResolvedPolicy:
    policy = MergedPolicy.from_text(POLICY)
    return resolving.resolve(policy.settings, collect_facts(policy, project=project))


def _by_hand(project: Path) -> ResolvedPolicy:
    """Facts written by a person, or recorded by an earlier version."""
    text = json.dumps({"schema": 2, "os": "linux", "home": str(project.parent), "project": str(project)})
    return Policy.from_text(POLICY).resolve(HostFacts.from_json(text))


CALLERS: Mapping[str, Made] = {
    "run": _here,
    "bridge": lambda project: resolved_with(_request(project)),
    "learn": lambda project: resolved_with(_request(project), ["network.mode=none"]),
    "verify": _verified,
    "diff": _compared,
    "API, render, explain and lint": lambda project: Policy.load(project / "sandbox.yaml").resolve(),
    "API with recorded facts": lambda project: Policy.load(project / "sandbox.yaml").resolve(
        HostFacts.from_json(Policy.load(project / "sandbox.yaml").facts().to_json())
    ),
    "resolve": _plain,
    "facts without them": _by_hand,
}


@pytest.mark.parametrize("caller", CALLERS)
def test_every_caller_has_them(project: Path, caller: str) -> None:
    found = CALLERS[caller](project)
    home = project.parent
    for name in HIDDEN:
        assert not found.is_path_readable(f"{home}/{name}/x"), name
        assert not found.is_path_writable(f"{home}/{name}/x"), name
    assert not found.is_path_writable(f"{home}/.cache/sandwright/programs/probe")
    assert found.is_path_writable(f"{home}/.cache/pip")


def test_no_caller_can_resolve_without_them() -> None:
    parameters = {"settings", "facts", "floor", "files", "compared"}
    assert set(inspect.signature(resolving.resolve).parameters) == parameters


@pytest.mark.parametrize("variable", ["", "XDG_DATA_HOME"])
def test_images_of_a_wheel(project: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images determine the content of the next sandbox."""
    place = project / "data" if variable else Path.home() / ".local/share"
    if variable:
        monkeypatch.setenv(variable, str(place))
    (place / "sandwright/images").mkdir(parents=True)
    found = Policy.from_text(
        f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT, {place}]}}\n"
    ).resolve()
    assert not found.filesystem.tree.changes_host(f"{place}/sandwright/images/x")
    assert found.filesystem.tree.changes_host(f"{place}/other")


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "XDG_CONFIG_HOME"])
def test_where_a_variable_leads_and_where_it_leads_without(
    project: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start may not have the variable."""
    home = project.parent
    monkeypatch.setenv(variable, str(home / "elsewhere"))
    text = POLICY.replace("~/.local", "~/elsewhere, ~/.config")
    found = Policy.from_text(text).resolve(collect_facts(MergedPolicy.from_text(text), project=project))
    assert not found.is_path_writable(f"{home}/elsewhere/sandwright/x")
    assert not found.is_path_writable(f"{home}/.cache/sandwright/x")
    assert not found.is_path_writable(f"{home}/.config/sandwright/policy.yaml")


@pytest.mark.parametrize(
    "path", ["~/.cache/sandwright", "~/.local/state/sandwright/keys", "~/.config/sandwright"]
)
def test_none_can_be_granted(project: Path, path: str) -> None:
    with pytest.raises(DocumentError, match="no policy can grant it"):
        Policy.from_text(POLICY.replace("/usr", path)).resolve()


def test_what_sandboxes_keep_can_be_granted_beside_the_keys(project: Path) -> None:
    found = Policy.from_text(POLICY.replace("~/.local", "$STATE/x")).resolve()
    assert found.is_path_writable(f"{project.parent}/.local/state/sandwright/state/x/y")


def test_they_are_hidden_before_there_was_a_first_run(project: Path) -> None:
    """A sandbox that reads the home would see the files of later runs there."""
    found = Policy.from_text(POLICY.replace("/usr", "$HOME").replace(", ~/.cache, ~/.local", "")).resolve()
    assert found.is_path_readable(f"{project.parent}/.cache/pip")
    for name in (".cache/sandwright/sessions", ".local/state/sandwright/keys"):
        assert found.facts.kind(f"{project.parent}/{name}") == "directory"
        assert not found.is_path_readable(f"{project.parent}/{name}/x")


LACKING = ("filesystem.deny-inside", "filesystem.readonly", "filesystem.absent-elsewhere")


@pytest.mark.parametrize("feature", LACKING)
def test_a_method_that_can_not_hold_them_is_refused(feature: str) -> None:
    """This holds for any method, and for any gap that the policy accepts."""
    support = {name: Support("exact") for name in FEATURES if name != feature}
    accepted = "accept_gaps: [{feature: %s, method: theirs, reason: a test}]\n"
    text = POLICY.replace("bwrap", "theirs") + accepted % feature
    policy = MergedPolicy.from_layers([layer(text, file="sandbox.yaml", methods=("theirs",))])
    there = {} if feature.startswith("filesystem.absent") else dict.fromkeys(_there(), HostEntry("directory"))
    facts = HostFacts(os="linux", home="/h", project="/h/p", entries=there)
    with pytest.raises(RenderError) as raised:
        render_with(policy.resolve(facts), Declaration("theirs", support), lambda _: ())
    assert "theirs cannot keep /h/." in str(raised.value)
    assert "with write ~/." in str(raised.value)
    assert "accept_gaps does not apply" in str(raised.value)
    render_with(
        policy.resolve(facts), Declaration("theirs", {**support, feature: Support("exact")}), lambda _: ()
    )


def _there() -> tuple[str, ...]:
    names = ("/", "/h", "/h/p", "/h/.cache", "/h/.cache/sandwright", "/h/.local", "/h/.local/state")
    return (*names, "/h/.local/state/sandwright", *(f"/h/{name}" for name in HIDDEN))


def test_a_link_to_them_that_can_be_replaced_is_refused() -> None:
    """The link is refused although its target is out of reach."""
    support = {name: Support("exact") for name in FEATURES if name != "filesystem.links"}
    text = POLICY.replace(", ~/.cache, ~/.local", ", ~/open").replace("bwrap", "theirs")
    text += "accept_gaps: [{feature: filesystem.links, method: theirs, reason: a test}]\n"
    policy = MergedPolicy.from_layers([layer(text, file="sandbox.yaml", methods=("theirs",))])
    names = ("/", "/h", "/h/p", "/h/open", "/apart", "/apart/sandwright", "/apart/sandwright/sessions")
    entries = dict.fromkeys(names, HostEntry("directory"))
    for link in ("/h/.cache", "/h/open/cache"):
        linked = {**entries, link: HostEntry("symlink", "/apart")}
        linked |= {"/h/.cache": HostEntry("symlink", "/h/open/cache")} if link == "/h/open/cache" else {}
        facts = HostFacts(os="linux", home="/h", project="/h/p", entries=linked)
        declaration = Declaration("theirs", support)
        if link == "/h/.cache":
            render_with(policy.resolve(facts), declaration, lambda _: ())
            continue
        with pytest.raises(RenderError, match=r"cannot keep the link /h/open/cache, .* accept_gaps does not"):
            render_with(policy.resolve(facts), declaration, lambda _: ())


def test_a_method_that_has_no_grant_above_them_is_taken() -> None:
    support = {name: Support("exact") for name in FEATURES if name not in LACKING}
    text = "schema: 1\nmethod: bwrap\nextends: []\nfilesystem: {write: [$PROJECT]}\n"
    facts = HostFacts(os="linux", home="/h", project="/h/p")
    render_with(MergedPolicy.from_text(text).resolve(facts), Declaration("x", support), lambda _: ())


def test_landlock_names_the_installation_and_the_way_out() -> None:
    """`init` proposes such a policy, and sandwright may be installed in the project's environment."""
    accepted = ("filesystem.attributes", "filesystem.protect", "filesystem.readonly", "process.kernel")
    accept_gaps = ", ".join(f"{{feature: {name}, method: landlock, reason: x}}" for name in accepted)
    text = f"schema: 1\nmethod: landlock\nfilesystem: {{write: [$PROJECT]}}\naccept_gaps: [{accept_gaps}]\n"
    entries = {name: HostEntry("directory") for name in ("/", "/h", "/h/p", "/h/p/.venv")}
    facts = HostFacts(os="linux", home="/h", project="/h/p", entries=entries, installation=("/h/p/.venv",))
    with pytest.raises(RenderError, match=r"landlock cannot keep /h/p/\.venv .*pipx"):
        registry.render(MergedPolicy.from_text(text).resolve(facts), "landlock")


def test_the_command_on_path_is_part_of_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, as pipx and uv make it, and the interpreter's file beside the link's target."""
    (tmp_path / "venv").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("sandwright", "sandwright-interpreter"):
        (tmp_path / "venv" / name).touch()
    (tmp_path / "bin/sandwright").symlink_to("../venv/sandwright")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    found = set(installation._executables())
    assert {f"{tmp_path}/bin/sandwright", f"{tmp_path}/venv/sandwright-interpreter"} <= found


def test_the_account_s_own_state_is_reserved_whatever_home_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples are tox and `env HOME=`: a grant there would open the key of the account's other runs."""
    real, other = tmp_path / "real", tmp_path / "other"
    for directory in (other / "p", real / ".local/state/sandwright/keys"):
        directory.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(other))
    monkeypatch.setattr("sandwright.user_dirs.account_home", lambda: str(real))
    text = f"schema: 1\nmethod: bwrap\nextends: []\nfilesystem: {{read: [/usr], write: [{real}]}}\n"
    (other / "p/sandbox.yaml").write_text(text)
    request = RunRequest(["true"], policy=str(other / "p/sandbox.yaml"), cwd=str(other / "p"))
    policy = resolved_here(load_layers(request, LiveHost()), request, LiveHost())
    assert policy.filesystem.tree.changes_host(str(real / "x"))
    for name in (".local/state/sandwright/keys/render-cache", ".cache/sandwright/sessions/x.json"):
        assert not policy.filesystem.tree.shows_host(str(real / name)), name
    assert not policy.filesystem.tree.changes_host(str(real / ".config/sandwright/policy.yaml"))


TRUSTED = (".config/containers", ".docker", ".local/share/containers")


@pytest.mark.parametrize("caller", CALLERS)
def test_what_the_engines_of_the_host_obey_is_readonly_for_every_caller(
    project: Path, caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "POLICY", POLICY.replace("~/.cache", "~/.config, ~/.cache"))
    (project / "sandbox.yaml").write_text(POLICY)
    found = CALLERS[caller](project)
    for name in (".config/containers", ".local/share/containers"):
        assert not found.filesystem.tree.changes_host(f"{project.parent}/{name}/x"), name
    assert found.filesystem.tree.changes_host(f"{project.parent}/.config/x")


SYSTEMS = (
    "/etc/containers",
    "/etc/docker",
    "/var/lib/containers",
    "/var/lib/docker",
)


@pytest.mark.parametrize("path", SYSTEMS)
def test_what_the_engines_of_root_obey_is_readonly(project: Path, path: str) -> None:
    found = Policy.from_text(POLICY.replace("~/.local", str(Path(path).parent))).resolve()
    assert not found.filesystem.tree.changes_host(f"{path}/x")
    assert found.filesystem.tree.changes_host(f"{path}-of-others")
    with pytest.raises(DocumentError, match="no policy can let it be written"):
        Policy.from_text(POLICY.replace("~/.local", f"{path}/x")).resolve()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's are elsewhere")
@pytest.mark.parametrize("name", ["sandwright", "sandwright-egress"])
def test_root_s_sessions_and_proxies_are_hidden_whatever_variables_say(project: Path, name: str) -> None:
    """The directories of proxies hold their configuration, and the secret of the session's relay."""
    found = Policy.from_text(POLICY.replace("~/.local", "/run")).resolve()
    assert not found.filesystem.tree.shows_host(f"/run/{name}/x")
    assert not found.filesystem.tree.changes_host(f"/run/{name}/x")
    assert found.filesystem.tree.changes_host(f"/run/{name}-of-others")
    with pytest.raises(DocumentError, match="no policy can grant it"):
        Policy.from_text(POLICY.replace("/usr", f"/usr, /run/{name}/x")).resolve()


@pytest.mark.parametrize(("mode", "refused"), [(0o700, False), (0o711, False), (0o755, True), (0o733, True)])
def test_the_directory_of_proxies_is_passed_through_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, refused: bool
) -> None:
    """This holds for a directory that rendering created and closed, too."""
    directory = tmp_path / "egress"
    directory.mkdir()
    directory.chmod(mode)
    monkeypatch.setattr(user_dirs, "ACCOUNTS", str(directory))
    with pytest.raises(HostError, match="root's") if refused else contextlib.nullcontext():
        user_dirs.accounts_directory()
        assert directory.stat().st_mode & 0o777 == 0o711


def test_the_directories_of_trials_are_readonly(project: Path) -> None:
    """A trial's directory may be granted, because its name is unpredictable."""
    path = f"/var/tmp/sandwright-{os.geteuid()}"
    found = Policy.from_text(POLICY.replace("~/.local", "/var/tmp")).resolve()
    assert not found.filesystem.tree.changes_host(f"{path}/x/y")
    assert found.filesystem.tree.changes_host(f"{path}-of-others")
    found = Policy.from_text(POLICY.replace("~/.local", f"/var/tmp, {path}/x")).resolve()
    assert found.filesystem.tree.changes_host(f"{path}/x/y")
    assert not found.filesystem.tree.changes_host(f"{path}/z")
    with pytest.raises(DocumentError, match="no policy can let it be written"):
        Policy.from_text(POLICY.replace("~/.local", path)).resolve()


@pytest.mark.skipif(os.geteuid() == 0, reason="root's Podman has its state in /run")
def test_the_state_of_podman_without_a_runtime_directory(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual directory may exist for the user who runs the tests."""
    kind, usual = LiveHost.kind, f"/run/user/{os.geteuid()}"
    monkeypatch.setattr(LiveHost, "kind", lambda self, path: None if path == usual else kind(self, path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for runtime, changes in (("", False), (str(tmp_path), True)):
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        found = Policy.from_text(POLICY.replace("~/.local", str(tmp_path))).resolve()
        for name in ("podman-run", "storage-run", "containers-user"):
            path = f"{tmp_path}/{name}-{os.geteuid()}/x"
            assert found.filesystem.tree.changes_host(path) is changes, (runtime, name)


@pytest.mark.parametrize("name", TRUSTED)
def test_it_can_be_read_and_not_written(project: Path, name: str) -> None:
    path = f"{project.parent}/{name}"
    found = Policy.from_text(POLICY.replace("/usr", f"/usr, {path}")).resolve()
    assert found.filesystem.tree.shows_host(f"{path}/x")
    with pytest.raises(DocumentError, match="no policy can let it be written"):
        Policy.from_text(POLICY.replace("~/.cache", f"{path}/x")).resolve()


@pytest.mark.parametrize("variable", ["SANDWRIGHT_BUILD", "SANDWRIGHT_ROOTFS", "DOCKER_CONFIG"])
def test_what_a_variable_names_is_readonly_now_and_in_runs_without_it(
    project: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later runs execute the images, under any policy."""
    place = project / "named"
    place.mkdir()
    monkeypatch.setenv(variable, str(place))
    assert not _plain(project).filesystem.tree.changes_host(f"{place}/x")
    assert not _here(project).filesystem.tree.changes_host(f"{place}/x")
    monkeypatch.delenv(variable)
    assert not _here(project).filesystem.tree.changes_host(f"{place}/x")
    assert _plain(project).filesystem.tree.changes_host(f"{place}/x"), "launchers are for others, too"
    place.rmdir()
    assert _here(project).filesystem.tree.changes_host(f"{place}/x")


_FILES = (
    *("CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE", "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_STORAGE_CONF"),
    *("REGISTRY_AUTH_FILE", "KUBECONFIG"),
)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("variable", _FILES)
def test_a_file_that_a_program_of_the_host_obeys_is_no_directory(
    project: Path, variable: str, relative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv(variable, "podman.conf" if relative else str(project / "podman.conf"))
    assert not _plain(project).filesystem.tree.changes_host(f"{project}/podman.conf")
    assert not (project / "podman.conf").exists()


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "XDG_DATA_HOME"])
def test_settings_and_images_of_podman_by_a_relative_path(
    project: Path, variable: str, relative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman starts from the current directory, although the specification says to ignore such a path."""
    monkeypatch.chdir(project)
    monkeypatch.setenv(variable, "named" if relative else str(project / "named"))
    tree = _plain(project).filesystem.tree
    assert not tree.changes_host(f"{project}/named/containers/x")
    assert tree.changes_host(f"{project}/named/other")
    assert tree.changes_host(f"{project}/named/sandwright/x") is relative, "we do ignore it"


def test_each_kubeconfig_is_reserved_outside_of_its_usual_place(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy decides about ~/.kube itself."""
    home = project.parent / "kube-home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KUBECONFIG", f":{project}/one:{home}/.kube/config:{project}/two")
    found = list(trusted_files(os.environ))
    assert found == [f"{project}/one", f"{project}/two"]


def test_the_build_of_a_checkout_that_is_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In sandwright's own repository, reading stays permitted, also for images that are made later."""
    monkeypatch.setattr("sandwright.policy.trusted.default_build", lambda: project / "build")
    found = Policy.from_text("schema: 1\nmethod: bwrap\n").resolve()
    assert not found.filesystem.tree.changes_host(f"{project}/build/images/x")
    assert found.filesystem.tree.shows_host(f"{project}/build/images/x")
    assert found.filesystem.tree.changes_host(f"{project}/src")


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "XDG_CONFIG_HOME"])
def test_a_run_knows_where_variables_of_earlier_runs_led(
    project: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = project / "elsewhere"
    monkeypatch.setenv(variable, str(place))
    _here(project)
    (place / "sandwright").mkdir(exist_ok=True, parents=True)
    monkeypatch.delenv(variable)
    assert not _here(project).filesystem.tree.changes_host(f"{place}/sandwright/x")
    assert _here(project).filesystem.tree.changes_host(f"{place}/x")


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "XDG_DATA_HOME"])
def test_a_run_knows_them_before_anything_is_in_them(
    project: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a sandbox could create the user's policy and approvals there, for runs with the variable."""
    place, other = project / "elsewhere", project.with_name("other")
    place.mkdir()
    other.mkdir()
    (other / "sandbox.yaml").write_text(POLICY)
    monkeypatch.setenv(variable, str(place))
    _here(other)
    assert not list(place.iterdir())
    monkeypatch.delenv(variable)
    for _ in range(2):  # the first run must not forget them
        assert _here(other).filesystem.tree.changes_host(f"{other}/x")
    assert not _here(project).filesystem.tree.changes_host(f"{place}/sandwright/x")
    assert not _here(project).filesystem.tree.changes_host(f"{place}/containers/x")
    assert _here(project).filesystem.tree.changes_host(f"{place}/x")
    shutil.rmtree(place)
    assert _here(project).filesystem.tree.changes_host(f"{place}/sandwright/x")


def test_denials_and_protections_hold_in_the_account_s_home_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`env HOME=…` changes where a program searches, not where the account's secrets are."""
    real, other = tmp_path / "real", tmp_path / "other"
    (real / ".ssh").mkdir(parents=True)
    (other / "p").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(other))
    monkeypatch.setattr("sandwright.user_dirs.account_home", lambda: str(real))
    text = f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT, {real}], deny: [$HOME/mine]}}\n"
    (other / "p/sandbox.yaml").write_text(text)
    request = RunRequest(["true"], policy=str(other / "p/sandbox.yaml"), cwd=str(other / "p"))
    policy = resolved_here(load_layers(request, LiveHost()), request, LiveHost())
    for home in (real, other):
        for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", "mine/x"):
            assert not policy.filesystem.tree.shows_host(f"{home}/{name}"), (home, name)
    assert not policy.filesystem.tree.changes_host(f"{real}/.bashrc")
    assert policy.filesystem.tree.changes_host(f"{real}/x")
