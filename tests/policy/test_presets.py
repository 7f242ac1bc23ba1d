"""The shipped presets, and the examples that users copy. Each resolves, and has the intended effect.

Tests of policy/names.py: the names of presets.
Tests of policy/presets/default.yaml.
Tests of policy/secretnames.py: the variables that are secrets.
Tests of policy/secretplaces.py: the paths that are secrets.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.methods import registry
from sandwright.policy import load, secretplaces
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.layers import merged
from sandwright.policy.names import METHODS, PRESETS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import check_expressible

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*/sandbox.yaml"))
NAMES = [path.parent.name for path in EXAMPLES]
LINUX = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    environment={"SSH_AUTH_SOCK": "/run/user/1000/agent"},
    entries={
        **dict.fromkeys(
            ("/", "/home", "/home/u", "/home/u/p", "/home/u/p/packages/web"), HostEntry("directory")
        ),
        "/home/u/p/packages/web/package.json": HostEntry("file"),
    },
)
MAC = HostFacts(
    os="darwin",
    home="/Users/u",
    project="/Users/u/p",
    tmp="/private/var/folders/T/x",
    environment={"SSH_AUTH_SOCK": "/private/tmp/com.apple.launchd.x/Listeners"},
)


def _preset(name: str) -> ResolvedPolicy:
    return Policy.from_text(f"extends: [{name}]").resolve(LINUX)


def _example(name: str, facts: HostFacts = LINUX) -> ResolvedPolicy:
    return Policy.load(EXAMPLES[NAMES.index(name)]).resolve(facts)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("facts", [LINUX, MAC], ids=["linux", "macos"])
def test_presets_resolve(name: str, facts: HostFacts) -> None:
    policy = Policy.from_text(f"extends: [{name}]").resolve(facts)
    assert policy.methods == (), "a method is never guessed"
    assert policy.accept_gaps == (), "what ships accepts no less than it says"
    assert not policy.process.sandbox_root
    assert not policy.network.unix_sockets
    assert policy.network.mode != "host"
    tree = policy.filesystem.tree
    assert not tree.shows_host(policy.canonical("~/.ssh/id_ed25519"))
    assert not tree.changes_host(policy.canonical("~/x"))
    assert policy.is_path_writable("$PROJECT/x")
    assert not policy.is_path_writable("$PROJECT/.git/hooks/x")
    assert not policy.environment.passes("AWS_SECRET_ACCESS_KEY")
    assert policy.environment.passes("PATH")


def test_the_presets_that_are_named_are_those_that_ship() -> None:
    shipped = {path.stem for path in Path(load.__file__).parent.joinpath("presets").glob("*.yaml")}
    assert shipped == {*PRESETS, "built-in"}


@pytest.mark.parametrize(
    "path",
    [
        ".opencode/plugin/x.js",  # OpenCode 1.18.33 runs it at its start
        ".claude/skills/x/SKILL.md",
        ".claude/workflows/x.js",
    ],
)
def test_what_agents_on_the_host_start_by_themselves_stays(path: str, tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    policy = Policy.from_text("method: bwrap")
    found = collect_facts(policy, project=tmp_path, environ={"HOME": str(tmp_path.parent)})
    assert not policy.resolve(found).is_path_writable(str(tmp_path / path))
    assert policy.resolve(found).is_path_writable(str(tmp_path / "x" / path.replace(".", "", 1)))


def test_strict_is_at_least_as_strict_as_default() -> None:
    floor = load.layer("extends: [default]", kind="floor")
    Policy.from_layers([floor, load.layer("extends: [strict]")]).resolve(LINUX)
    assert not _preset("strict").is_path_readable("/srv")
    assert not _preset("strict").is_path_readable("/home/u/other")
    assert _preset("strict").is_path_readable("/usr/bin/env")
    assert _preset("strict").process.seccomp == "strict"


def test_build_reaches_registries_through_the_proxy() -> None:
    network = _preset("build").network
    assert network.mode == "proxy"
    assert any(pattern.matches("pypi.org", 443) for pattern in network.allow)
    assert not any(pattern.matches("github.com", 443) for pattern in network.allow)
    assert _preset("build").environment.set["PIP_CACHE_DIR"] == "/tmp/cache/pip"
    assert {"java", "go-runtime"} <= set(_preset("build").macos)


def test_ci_ends_and_passes_no_tokens() -> None:
    policy = _preset("ci")
    assert policy.resources.time == 3600
    assert policy.environment.set["CI"] == "true"
    assert policy.environment.passes("GITHUB_SHA")
    assert policy.environment.passes("LC_ALL")
    for secret in ("GITHUB_TOKEN", "CI_JOB_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "NPM_TOKEN"):
        assert not policy.environment.passes(secret), secret


def test_presets_add_up() -> None:
    policy = Policy.from_text("extends: [build, ci]").resolve(LINUX)
    assert policy.network.mode == "proxy"
    assert policy.process.seccomp == "build"
    assert policy.resources.time == 3600


@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
@pytest.mark.parametrize("facts", [LINUX, MAC], ids=["linux", "macos"])
def test_examples_resolve(path: Path, facts: HostFacts) -> None:
    policy = Policy.load(path).resolve(facts)
    for method in policy.methods:
        assert not [
            f
            for f in check_expressible(policy, registry.declaration(method))
            if f.kind == "degraded" and not f.accepted
        ]
    assert not policy.is_path_readable("~/.ssh/id_ed25519")
    assert not policy.is_path_writable("~/.bashrc")


def test_there_are_examples_for_each_kind_of_work() -> None:
    assert NAMES == [
        "agent", "ci", "cluster", "everywhere", "macos", "monorepo", "node", "python", "review",
    ]  # fmt: skip


GRANTING = ("landlock", "noop", "vm")
"""Methods that restrict nothing inside writable paths, and one that cannot reach a proxy."""


@pytest.mark.parametrize("method", [method for method in METHODS if method not in GRANTING])
def test_one_example_is_for_every_method(method: str) -> None:
    check_expressible(_example("everywhere"), registry.declaration(method))


def test_the_agent() -> None:
    policy = _example("agent")
    assert policy.credentials.shims["gh"].secrets == {"GH_TOKEN": "SANDBOX_GH_TOKEN"}
    assert policy.network.unix_sockets == ("/run/user/1000/agent",)
    assert policy.is_path_writable("$PROJECT/.vscode/settings.json")
    assert not policy.is_path_writable("$PROJECT/.idea/workspace.xml")
    assert not policy.is_path_readable("/home/u/other")
    assert policy.is_path_readable("~/.gitconfig")
    assert "ssh-agent" in policy.macos
    assert "pty" in policy.macos


def test_the_review() -> None:
    policy = _example("review")
    assert policy.is_path_readable("$PROJECT/src/a.py")
    assert not policy.is_path_writable("$PROJECT/src/a.py")
    assert policy.is_path_writable("$PROJECT/report/a.md")
    assert not policy.is_path_readable("/home/u/other")


def test_the_monorepo() -> None:
    policy = _example("monorepo")
    assert policy.is_path_writable("$PROJECT/packages/web/src/a.ts")
    assert not policy.is_path_writable("$PROJECT/packages/web/package.json")
    assert not policy.is_path_writable("$PROJECT/packages/api/src/a.ts")
    assert policy.is_path_readable("$PROJECT/packages/api/src/a.ts")
    assert not policy.is_path_readable("$PROJECT/packages/payments/key")
    assert policy.is_path_writable("$PROJECT/.git/index")
    assert not policy.is_path_writable("$PROJECT/.git/hooks/x")


def test_the_mac() -> None:
    policy = _example("macos", MAC)
    assert policy.is_path_writable("/tmp/swift-generated-sources/x")
    assert policy.is_path_writable("/private/tmp/swift-generated-sources/x")
    assert not policy.is_path_readable("~/Documents/x")
    assert policy.network.localhost == (8080,)


def test_where_layers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    floor, project, config = tmp_path / "floor.yaml", tmp_path / "p", tmp_path / "config" / "sandwright"
    monkeypatch.setattr(load, "FLOOR", floor)
    project.mkdir()
    config.mkdir(parents=True)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    assert load.layers_for(project, environ) == ()
    floor.write_text("image: debian")
    (config / "policy.yaml").write_text("network: {mode: none}")
    (project / "sandbox.yaml").write_text("method: bwrap")
    layers = load.layers_for(project, {**environ, "SANDBOX_METHOD": "docker"}, settings=["user.mapping=off"])
    assert sorted(layer.kind for layer in layers) == ["floor", "project", "run", "user"]
    policy = Policy.from_layers(layers)
    assert policy.settings.value("method") == "docker"
    assert policy.settings.value("user.mapping") == "off"
    assert policy.floor is not None
    assert policy.floor.value("image") == "debian"


@pytest.mark.parametrize("kind", ["floor", "user"])
@pytest.mark.parametrize("link", ["policy.yaml", "sandwright"])
def test_a_policy_behind_a_link_that_leads_nowhere_is_not_left_out(
    kind: str, link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its restrictions would be lost: the disk with its target may not be mounted."""
    folder = tmp_path / "config" / "sandwright"
    monkeypatch.setattr(load, "FLOOR", folder / "policy.yaml" if kind == "floor" else tmp_path / "none")
    place = folder / link if link == "policy.yaml" else folder
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "unmounted" / link)
    config = str(tmp_path / ("config" if kind == "user" else "other"))
    with pytest.raises(UsageError, match=f"cannot read the {kind} policy .*: No such file"):
        load.layers_for(tmp_path, {"XDG_CONFIG_HOME": config, "HOME": str(tmp_path)})


@pytest.mark.parametrize(
    "environ", [{"XDG_CONFIG_HOME": "config"}, {"XDG_CONFIG_HOME": ""}, {"HOME": ""}, {}]
)
def test_no_variable_without_an_absolute_path_moves_the_users_policy(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".config" / "sandwright").mkdir(parents=True)
    (tmp_path / ".config" / "sandwright" / "policy.yaml").write_text("image: debian")
    assert [layer.kind for layer in load.layers_for(tmp_path, environ)] == ["user"]


def test_the_table_of_secrets_is_what_the_preset_denies() -> None:
    """Each path is there once, with a reason; each omitted path has a reason, too."""
    listed = [item.value for item in merged(load.preset("default")).items("filesystem.deny")]
    denied = [path for places in secretplaces.DENIED.values() for path in places]
    assert sorted(path for path in listed if path.startswith("~")) == sorted(denied)
    assert len({*denied}) == len(denied)
    assert not {*denied} & secretplaces.LEFT.keys()
    assert all(secretplaces.LEFT.values())


PLACES = """
~/.config/github-copilot/apps.json ~/.copilot/config.json ~/.cache/huggingface/token ~/.huggingface/token
~/.kaggle/kaggle.json ~/.config/pip/pip.conf ~/.pip/pip.conf ~/.bundle/config ~/.composer/auth.json
~/.config/composer/auth.json ~/.mylogin.cnf ~/.pg_service.conf ~/.pulumi/credentials.json
~/.fly/config.yml ~/.config/.wrangler/config/default.toml ~/.wrangler/config/default.toml
~/.local/share/com.vercel.cli/auth.json ~/.config/netlify/config.json ~/.netlify/config.json
~/.config/configstore/firebase-tools.json ~/.cloudflared/cert.pem ~/.config/ngrok/ngrok.yml
~/.local/share/atuin/history.db ~/.local/share/atuin/key ~/.config/Signal/config.json
~/.config/Slack/Cookies ~/.config/discord/Cookies ~/.config/Code/User/globalStorage/state.vscdb
~/.config/Cursor/User/globalStorage/state.vscdb ~/.cursor/mcp.json ~/.local/share/amp/secrets.json
~/.config/goose/secrets.yaml ~/.qwen/oauth_creds.json ~/.ethereum/keystore ~/.bitcoin/wallet.dat
~/.config/solana/id.json ~/.electrum/wallets ~/.local/share/kwalletd/kdewallet.kwl ~/.msmtprc
~/.fetchmailrc ~/.mbsyncrc ~/.config/filezilla/sitemanager.xml ~/.local/share/remmina ~/.config/JetBrains
~/.config/vivaldi/Default/Cookies ~/.config/opera/Cookies ~/.librewolf ~/.zen ~/.config/zen ~/.1password
~/.terraformrc ~/.config/terraform ~/.gcloud ~/.sbt/.credentials ~/.ivy2/.credentials
~/.m2/settings-security.xml ~/.config/NuGet ~/.config/stripe/config.toml ~/.config/supabase/access-token
~/.railway/config.json ~/.config/linode-cli ~/.config/scw/config.yaml ~/.lesshst ~/.viminfo
~/.local/share/nvim/shada ~/.zhistory ~/.history ~/.irb_history ~/.config/fish/fish_variables ~/.bashrc
~/.zshrc ~/.profile ~/.env ~/.local/share/mkcert ~/.minikube ~/.step ~/.acme.sh ~/.config/wireguard
~/.config/tailscale ~/.snowsql/config ~/.dbt/profiles.yml ~/.databricks ~/.config/openai ~/.openai
~/.config/io.datasette.llm/keys.json ~/.ollama/id_ed25519 ~/.local/share/containers/auth.json
~/.config/containers/certs.d
~/.claude/projects ~/.claude/history.jsonl ~/.codex/history.jsonl ~/.codex/sessions
~/.gemini/google_accounts.json ~/.config/hub ~/.terraform.d/credentials.tfrc.json
~/.config/sops/age/keys.txt
"""
"""The files in which programs store secrets, from a search through their manuals."""


@pytest.mark.parametrize("place", PLACES.split())
def test_each_known_place_of_secrets_is_decided(place: str) -> None:
    denied = [path for places in secretplaces.DENIED.values() for path in places]
    assert place in secretplaces.LEFT or any(
        place == path or place.startswith(f"{path}/") for path in denied
    ), place
