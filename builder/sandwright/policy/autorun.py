"""The names at which tools of the host run programs by themselves, or read which programs to run.

One row for each name: the tool, what it runs and when, what sandwright does about it, and why. The preset
`default` lists the rows `protect` under `filesystem.protect`; `policy.nested` protects the rows `existing`;
the end of a run reports all but `leave`. Paths are relative to any directory in which the tool looks.

Sources are the tools' manuals (the page is named where it isn't the obvious one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decision = Literal["protect", "existing", "report", "leave"]
"""`protect`: read-only inside, and can't be made in the project. `existing`: read-only where it is there when
a run starts; what a run makes is reported at its end. `report`: may be written, and is reported. `leave`:
none of these."""


@dataclass(frozen=True)
class AutorunName:
    """A row. `path` may begin with `*`, which stands for the beginning of a name.

    `metadata` is the directory whose existence makes an `existing` name protected, even while the name is
    missing; empty for the name itself.
    """

    path: str
    tool: str
    runs: str
    decision: Decision
    reason: str
    metadata: str = ""


_SILENT = "no question is asked, and a prompt, an editor or a shell may do it automatically"
_RARE = "no question is asked; a placeholder in each project would cost more than few users of it gain"
_TRUST = "the tool asks whether it may trust the directory, which a person has answered once for the project"
_BUILD = "only as somebody builds or installs, which runs the project's own code anyway"
_STEERS = "text that steers an agent, and that agents write as part of their work; it starts nothing"
_ABSENT = "its agent, inside, would take a placeholder for a broken file"
_DATA = "it leads to a server, and no program is named in it"
_OWN = "the project's own work, which is there to be written; whoever builds or tests the project runs it"
_HOME = "it is read in the home only, which few policies let be written: no placeholder in each project"

PROTECTED = (
    (".git/hooks", "Git", "runs them at commits, checkouts, merges and pushes (githooks)"),
    (".git/config", "Git", "core.fsmonitor, core.pager, filters and aliases, at `git status` (git-config)"),
    (".git/config.worktree", "Git", "the same, for one work tree"),
    (".git/commondir", "Git", "moves hooks and configuration elsewhere (gitrepository-layout)"),
    (".git/info/attributes", "Git", "chooses filters and merge drivers (gitattributes)"),
    (".git/objects/info/alternates", "Git", "another repository's objects, which a later push would publish"),
    (".gitconfig", "Git", "the user's configuration"),
    (".bashrc", "bash", "each interactive shell"),
    (".bash_profile", "bash", "each login"),
    (".bash_login", "bash", "each login"),
    (".bash_logout", "bash", "the end of a login"),
    (".profile", "sh", "each login"),
    (".zshenv", "zsh", "each start, scripts' too"),
    (".zshrc", "zsh", "each interactive shell"),
    (".zprofile", "zsh", "each login"),
    (".zlogin", "zsh", "each login"),
    (".zlogout", "zsh", "the end of a login"),
    (".config/fish/config.fish", "fish", "each start"),
    (".envrc", "direnv", "as the directory is entered, once it was allowed"),
    (".vscode", "VS Code", "tasks as the folder is opened, and paths of programs in settings"),
    (".idea", "JetBrains' editors", "run configurations, file watchers and start-up tasks"),
    (".vim", "Vim", "plugins, where a runtime path leads here"),
    (".vimrc", "Vim", "commands at its start"),
    (".exrc", "Vim, Neovim", "commands at its start in this directory ('exrc')"),
    (".nvim.lua", "Neovim", "Lua at its start in this directory ('exrc')"),
    (".claude/agents", "Claude Code", "agents with tools and hooks"),
    (".claude/commands", "Claude Code", "commands that run programs"),
    (".claude/hooks", "Claude Code", "programs at each step"),
    (".claude/settings.json", "Claude Code", "hooks, permissions, an API key's helper"),
    (".claude/settings.local.json", "Claude Code", "the same"),
    (".claude/skills", "Claude Code", "programs that a skill brings"),
    (".claude/workflows", "Claude Code", "steps that run programs"),
    (".codex", "Codex", "servers of tools (MCP) and settings"),
    (".cursor", "Cursor", "servers of tools (MCP), hooks and rules"),
    (".devcontainer", "VS Code", "commands on the host as the container is made (initializeCommand)"),
    (".devcontainer.json", "VS Code", "the same"),
    (".gemini", "Gemini CLI", "servers of tools (MCP), hooks and settings"),
    (".mcp.json", "Claude Code and others", "servers of tools (MCP)"),
    (".opencode", "OpenCode", "programs in it, as it starts"),
    (".husky", "husky", "Git's hooks, where core.hooksPath leads here"),
    (".pre-commit-config.yaml", "pre-commit", "hooks at each commit"),
    (".ripgreprc", "ripgrep", "a program for each file (--pre), where RIPGREP_CONFIG_PATH leads here"),
)
"""In the order of the preset `default`."""

VERSION_CONTROL = (
    (".hg/hgrc", ".hg", "Mercurial", "hooks, extensions and aliases, at `hg status` (hgrc)"),
    (".hg/hgrc-not-shared", ".hg", "Mercurial", "the same (share-safe)"),
    (".hg/requires", ".hg", "Mercurial", "`shared` takes the configuration from elsewhere"),
    (".hg/sharedpath", ".hg", "Mercurial", "where that is"),
    (".sl/config", ".sl", "Sapling", "hooks, extensions and aliases, at `sl status`"),
    (".jj/repo/config.toml", ".jj/repo", "Jujutsu", "the pager, editors and fix tools, at `jj log`"),
    (".jj/workspace-config.toml", ".jj", "Jujutsu", "the same, for one workspace"),
    (".jj/repo/store/git_target", ".jj/repo", "Jujutsu", "where the Git repository is"),
    (
        ".bzr/branch/branch.conf",
        ".bzr/branch",
        "Breezy, Bazaar",
        "mail and editor programs",
    ),
    ("_darcs/prefs", "_darcs", "Darcs", "`posthook` and `prehook` of defaults, at any command"),
    (".pijul/config", ".pijul", "Pijul", "hooks of `pijul record`"),
    (".fslckout", "", "Fossil", "names the repository, whose settings run programs"),
    ("_FOSSIL_", "", "Fossil", "the same"),
    (".fossil-settings", "", "Fossil", "versioned settings; some run TH1 and Tcl"),
    ("CVS", "", "CVS", "Root names a repository, whose scripts run at a commit"),
    (".p4config", "", "Perforce", "P4EDITOR and P4DIFF, where P4CONFIG has this name"),
)
"""Names in the metadata of version control: protected where the metadata is there."""

EXISTING = (
    (".sandbox", "sandwright", "launchers that it rendered; the `sandbox.yaml` beside them, too", _TRUST),
    (".direnv", "direnv", "cached environments, sourced as the directory is entered", _TRUST),
    (".devenv", "devenv", "profiles on PATH as the directory is entered", _TRUST),
    ("mise.toml", "mise", "hooks, tasks and environment as the directory is entered", _TRUST),
    (".mise.toml", "mise", "the same", _TRUST),
    (".config/mise.toml", "mise", "the same", _TRUST),
    (".mise", "mise", "the same", _TRUST),
    (".nvimrc", "Neovim", "commands at its start in this directory ('exrc')", _RARE),
    (".lvimrc", "Vim", "commands as a file is opened (localvimrc)", _RARE),
    (".dir-locals.el", "Emacs", "variables as a file is opened, some with code", _RARE),
    (".dir-locals-2.el", "Emacs", "the same", _RARE),
    (".helix", "Helix", "language servers and formatters as a file is opened", _RARE),
    (".zed", "Zed", "language servers, tasks and servers of tools", _RARE),
    (".fleet", "Fleet", "run configurations", _RARE),
    (".vs", "Visual Studio", "tasks and start-up settings", _RARE),
    (".gdbinit", "gdb", "commands at its start here, where the directory is trusted", _RARE),
    (".lldbinit", "lldb", "the same", _RARE),
    (".pdbrc", "Python's pdb", "Python at each start in this directory", _RARE),
    (".kiro", "Kiro", "hooks and servers of tools (MCP)", _RARE),
    (".windsurf", "Windsurf", "servers of tools (MCP), hooks", _RARE),
    (".roo", "Roo Code", "servers of tools (MCP)", _RARE),
    (".continue", "Continue", "servers of tools (MCP)", _RARE),
    (".amazonq", "Amazon Q", "servers of tools (MCP), agents", _RARE),
    (".qwen", "Qwen Code", "servers of tools (MCP), settings", _RARE),
    (".factory", "Factory", "servers of tools (MCP), hooks", _RARE),
    (".junie", "Junie", "servers of tools (MCP)", _RARE),
    (".trae", "Trae", "servers of tools (MCP)", _RARE),
    (".clinerules/hooks", "Cline", "programs at each step", _RARE),
    (".agents/skills", "several agents", "programs that a skill brings", _RARE),
    (".crush.json", "Crush", "servers of tools (MCP), language servers", _RARE),
    ("crush.json", "Crush", "the same", _RARE),
    (".claude/plugins", "Claude Code", "hooks and servers of tools that a plugin brings", _RARE),
    (".github/copilot", "GitHub Copilot", "servers of tools (MCP)", _RARE),
    (
        "opencode.json",
        "OpenCode",
        "servers of tools (MCP) and plugins",
        _ABSENT,
    ),
    ("opencode.jsonc", "OpenCode", "the same", _ABSENT),
    (".aider.conf.yml", "Aider", "lint and test commands", _ABSENT),
    (".overcommit.yml", "overcommit", "hooks at each commit, once signed", _TRUST),
    ("lefthook.yml", "lefthook", "hooks at each commit", _RARE),
    (".lefthook.yml", "lefthook", "the same", _RARE),
    (".bash_aliases", "bash", "each interactive shell, where .bashrc says so", _HOME),
    (".config/fish/conf.d", "fish", "each start", _HOME),
    (".config/fish/functions", "fish", "functions in the place of programs", _HOME),
    (".config/git", "Git", "the user's configuration, attributes and hooks", _HOME),
    (".config/nvim", "Neovim", "Lua at its start", _HOME),
    (".config/systemd/user", "systemd", "services at the next login", _HOME),
    (".config/autostart", "desktops", "programs at the next login", _HOME),
    (".config/environment.d", "systemd", "PATH and the like of the next login", _HOME),
    (".local/bin", "shells", "programs that come first on many a PATH", _HOME),
    (".pam_environment", "PAM", "PATH and the like of the next login", _HOME),
    (".tmux.conf", "tmux", "commands at its start", _HOME),
    (".screenrc", "screen", "commands at its start", _HOME),
    (".inputrc", "readline", "keys that type commands", _HOME),
    (".xprofile", "X11", "each login", _HOME),
    (".xsessionrc", "X11", "each login", _HOME),
    (".xinitrc", "X11", "each login", _HOME),
    (".ssh/config", "ssh", "ProxyCommand and Match exec, at each connection, Git's too", _HOME),
    (".ssh/rc", "sshd", "each login", _HOME),
    ("Library/LaunchAgents", "launchd", "programs at the next login", _HOME),
)

REPORTED = (
    ("sandbox.yaml", "sandwright", "what the next run here allows", _TRUST),
    (
        ".gitmodules",
        "Git",
        "where submodules come from",
        _DATA,
    ),
    ("*.code-workspace", "VS Code", "tasks and settings, as it is opened", _TRUST),
    ("*.sublime-project", "Sublime Text", "build systems", _BUILD),
    ("rust-toolchain.toml", "rustup", "`path` names the cargo that runs, at `cargo --version`", _BUILD),
    ("rust-toolchain", "rustup", "the same", _BUILD),
    (".cargo/config.toml", "cargo", "linkers, runners, wrappers and aliases", _BUILD),
    (".cargo/config", "cargo", "the same", _BUILD),
    (".npmrc", "npm, pnpm", "the shell and Git that are run, and registries", _BUILD),
    (".yarnrc", "yarn 1", "`yarn-path` names the yarn that runs, at `yarn --version`", _BUILD),
    (".yarnrc.yml", "yarn", "`yarnPath` and plugins, at `yarn --version`", _BUILD),
    (".yarn/releases", "yarn", "the yarn that runs", _BUILD),
    (".yarn/plugins", "yarn", "plugins, at each command", _BUILD),
    (".pnpmfile.cjs", "pnpm", "hooks of each installation", _BUILD),
    (".mvn", "Maven", "extensions and the JVM's options", _BUILD),
    (".gradle/init.d", "Gradle", "scripts of each build", _BUILD),
    (".bundle/config", "Bundler", "build flags and paths", _BUILD),
    (".pylintrc", "pylint", "init-hook: Python at each look, also an editor's", _BUILD),
    (".eslintrc.js", "ESLint", "JavaScript at each look, also an editor's", _BUILD),
    (".eslintrc.cjs", "ESLint", "the same", _BUILD),
    (".prettierrc.js", "Prettier", "JavaScript at each look, also an editor's", _BUILD),
    (".github/workflows", "GitHub Actions", "jobs, with the repository's secrets, after a push", _OWN),
    (".gitlab-ci.yml", "GitLab CI", "the same", _OWN),
    (".claude/rules", "Claude Code", "nothing", _STEERS),
    (".claude/output-styles", "Claude Code", "nothing", _STEERS),
    (".cursorrules", "Cursor", "nothing", _STEERS),
)

LEFT = (
    ("Makefile", "make", "recipes", _OWN),
    ("package.json", "npm, yarn, pnpm", "scripts of installation, build and test", _OWN),
    ("pyproject.toml", "pip, pytest, …", "build back-ends and plugins", _OWN),
    ("setup.py", "pip", "Python as it is built", _OWN),
    ("conftest.py", "pytest", "Python as it collects, also an editor's test list", _OWN),
    ("noxfile.py", "nox", "sessions", _OWN),
    ("tasks.py", "invoke", "tasks", _OWN),
    ("tox.ini", "tox", "commands", _OWN),
    ("justfile", "just", "recipes", _OWN),
    ("Rakefile", "rake", "tasks", _OWN),
    ("Gemfile", "Bundler", "Ruby, also a language server's start", _OWN),
    ("build.rs", "cargo", "a program at each build, also rust-analyzer's", _OWN),
    ("Cargo.toml", "cargo", "procedural macros and build scripts", _OWN),
    ("go.mod", "go", "`toolchain` names the version that is fetched, checked by checksum", _OWN),
    ("build.gradle", "Gradle", "Groovy at each look, also an editor's", _OWN),
    ("pom.xml", "Maven", "plugins", _OWN),
    ("CMakeLists.txt", "CMake", "commands as it configures", _OWN),
    ("Dockerfile", "Docker", "commands in a container", _OWN),
    ("compose.yaml", "Docker", "containers, with mounts of the host", _OWN),
    ("flake.nix", "Nix", "derivations, in a sandbox", _OWN),
    ("node_modules/.bin", "npx, editors", "installed programs", _OWN),
    (".venv", "Python", "the interpreter that editors choose", _OWN),
    ("AGENTS.md", "agents", "nothing", _STEERS),
    ("CLAUDE.md", "Claude Code", "nothing", _STEERS),
    (".editorconfig", "editors", "nothing: it names indentations", _OWN),
    (
        ".svn",
        "Subversion",
        "nothing: ~/.subversion names programs",
        _DATA,
    ),
)

NAMES: tuple[AutorunName, ...] = (
    *(AutorunName(path, tool, runs, "protect", _SILENT) for path, tool, runs in PROTECTED),
    *(AutorunName(path, tool, runs, "existing", _RARE, where) for path, where, tool, runs in VERSION_CONTROL),
    *(AutorunName(path, tool, runs, "existing", reason) for path, tool, runs, reason in EXISTING),
    *(AutorunName(path, tool, runs, "report", reason) for path, tool, runs, reason in REPORTED),
    *(AutorunName(path, tool, runs, "leave", reason) for path, tool, runs, reason in LEFT),
)
"""All rows."""


def paths(*decisions: Decision) -> tuple[str, ...]:
    """The paths of the rows with one of some decisions."""
    return tuple(each.path for each in NAMES if each.decision in decisions)
