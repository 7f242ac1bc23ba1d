"""Names of files that tools on the host execute automatically, or that name programs for them to execute.

One row per name: the tool, what it executes and when, the decision of sandwright, and the reason. The preset
`default` lists the rows `protect` under `filesystem.protect`; `policy.nested` protects the rows `existing`;
the end of a run reports all rows except `leave`. Paths are relative to any directory in which the tool looks.

The sources are the manuals of the tools; the page is named if it is not the obvious one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decision = Literal["protect", "existing", "report", "leave"]
"""`protect`: read-only in the sandbox, and cannot be created in the project. `existing`: read-only if it
exists when a run starts; a new one is reported at the end. `report`: writable, and reported. `leave`:
writable and not reported."""


@dataclass(frozen=True)
class AutorunName:
    """A row. `path` may begin with the wildcard `*`.

    An `existing` name is protected if the directory `metadata` exists, even if the name is missing. Without
    `metadata` it is protected if it exists itself.
    """

    path: str
    tool: str
    runs: str
    decision: Decision
    reason: str
    metadata: str = ""


_SILENT = "the tool does not ask, and a prompt, an editor or a shell may trigger it"
_RARE = "the tool does not ask, but it has too few users for a placeholder in every project"
_TRUST = "the tool asks once for each project whether it is trusted"
_BUILD = "only during builds and installations, which run code of the project anyway"
_STEERS = "instructions for agents, which agents also write; the file starts no program"
_ABSENT = "in the sandbox, the agent would treat a placeholder as a broken file"
_DATA = "it names a server, but no program"
_OWN = "part of the project, and executed when the project is built or tested"
_SAVED = "part of the work, which sessions in the sandbox save, too"
_HOME = "the tool reads it only in the home directory, which few policies make writable"

PROTECTED = (
    (".git/hooks", "Git", "hooks of commits, checkouts, merges and pushes (githooks)"),
    (".git/config", "Git", "core.fsmonitor, core.pager, filters and aliases, at `git status` (git-config)"),
    (".git/config.worktree", "Git", "the same, for one worktree"),
    (".git/commondir", "Git", "redirects hooks and configuration (gitrepository-layout)"),
    (".git/remotes", "Git", "addresses of remotes: a push to a directory runs the hooks in it"),
    (".git/branches", "Git", "the same, older (gitrepository-layout)"),
    (".git/info/attributes", "Git", "filters and merge drivers (gitattributes)"),
    (
        ".git/objects/info/alternates",
        "Git",
        "objects of another repository, which a later push would publish",
    ),
    (".gitconfig", "Git", "the user's configuration"),
    (".bashrc", "bash", "each interactive shell"),
    (".bash_profile", "bash", "each login"),
    (".bash_login", "bash", "each login"),
    (".bash_logout", "bash", "the end of a login"),
    (".profile", "sh", "each login"),
    (".zshenv", "zsh", "each start, also of scripts"),
    (".zshrc", "zsh", "each interactive shell"),
    (".zprofile", "zsh", "each login"),
    (".zlogin", "zsh", "each login"),
    (".zlogout", "zsh", "the end of a login"),
    (".config/fish/config.fish", "fish", "each start"),
    (".envrc", "direnv", "on entering the directory, once it is allowed"),
    (".vscode", "VS Code", "tasks on opening the folder, and paths of programs in settings"),
    (".idea", "JetBrains' editors", "run configurations, file watchers and startup tasks"),
    (".vim", "Vim", "plugins, if 'runtimepath' includes it"),
    (".vimrc", "Vim", "commands at startup"),
    (".exrc", "Vim, Neovim", "commands at startup in this directory ('exrc')"),
    (".nvim.lua", "Neovim", "Lua at startup in this directory ('exrc')"),
    (".claude/agents", "Claude Code", "agents with tools and hooks"),
    (".claude/commands", "Claude Code", "commands that run programs"),
    (".claude/hooks", "Claude Code", "programs at each step"),
    (".claude/settings.json", "Claude Code", "hooks, permissions, API key helper"),
    (".claude/settings.local.json", "Claude Code", "the same"),
    (".claude/skills", "Claude Code", "programs of skills"),
    (".claude/workflows", "Claude Code", "steps that run programs"),
    (".codex", "Codex", "MCP servers and settings"),
    (".cursor", "Cursor", "MCP servers, hooks and rules"),
    (".devcontainer", "VS Code", "commands on the host when the container is created (initializeCommand)"),
    (".devcontainer.json", "VS Code", "the same"),
    (".gemini", "Gemini CLI", "MCP servers, hooks and settings"),
    (".mcp.json", "Claude Code and others", "MCP servers"),
    (".opencode", "OpenCode", "programs in it, at startup"),
    (".husky", "husky", "Git hooks, if core.hooksPath names it"),
    (".pre-commit-config.yaml", "pre-commit", "hooks at each commit"),
    (".ripgreprc", "ripgrep", "a program for each file (--pre), if RIPGREP_CONFIG_PATH names it"),
)
"""In the order of the preset `default`."""

VERSION_CONTROL = (
    (".hg/hgrc", ".hg", "Mercurial", "hooks, extensions and aliases, at `hg status` (hgrc)"),
    (".hg/hgrc-not-shared", ".hg", "Mercurial", "the same (share-safe)"),
    (".hg/requires", ".hg", "Mercurial", "`shared` uses the configuration of another repository"),
    (".hg/sharedpath", ".hg", "Mercurial", "the path of that repository"),
    (".sl/config", ".sl", "Sapling", "hooks, extensions and aliases, at `sl status`"),
    (".sl/requires", ".sl", "Sapling", "`shared` uses the configuration of another repository"),
    (".sl/sharedpath", ".sl", "Sapling", "the path of that repository"),
    (".git/sl/config", ".git/sl", "Sapling", "the same, in a repository of Git"),
    (".git/sl/requires", ".git/sl", "Sapling", "the same"),
    (".git/sl/sharedpath", ".git/sl", "Sapling", "the same"),
    (".jj/repo/config.toml", ".jj/repo", "Jujutsu", "the pager, editors and fix tools, at `jj log`"),
    (".jj/workspace-config.toml", ".jj", "Jujutsu", "the same, for one workspace"),
    (".jj/repo/store/git_target", ".jj/repo", "Jujutsu", "the path of the Git repository"),
    (
        ".bzr/branch/branch.conf",
        ".bzr/branch",
        "Breezy, Bazaar",
        "mail and editor programs",
    ),
    (".bzr/branch/location", ".bzr/branch", "Breezy, Bazaar", "the path of another branch"),
    ("_darcs/prefs", "_darcs", "Darcs", "`posthook` and `prehook` of defaults, at any command"),
    (".pijul/config", ".pijul", "Pijul", "hooks of `pijul record`"),
    (".fslckout", "", "Fossil", "the path of the repository, whose settings run programs"),
    ("_FOSSIL_", "", "Fossil", "the same"),
    (".fossil-settings", "", "Fossil", "versioned settings; some run TH1 and Tcl"),
    ("CVS", "", "CVS", "Root names a repository, whose scripts run at commits"),
    (".p4config", "", "Perforce", "P4EDITOR and P4DIFF, if P4CONFIG names it"),
)
"""Names in the metadata of version control, protected if the metadata exists."""

EXISTING = (
    (".sandbox", "sandwright", "rendered launchers, and the `sandbox.yaml` next to them", _TRUST),
    (".direnv", "direnv", "cached environments, sourced on entering the directory", _TRUST),
    (".devenv", "devenv", "profiles added to PATH on entering the directory", _TRUST),
    ("mise.toml", "mise", "hooks, tasks and environment on entering the directory", _TRUST),
    (".mise.toml", "mise", "the same", _TRUST),
    (".config/mise.toml", "mise", "the same", _TRUST),
    (".mise", "mise", "the same", _TRUST),
    (".git/lazygit.yml", "lazygit", "commands at startup, pagers and editors", _RARE),
    (".lazygit.yml", "lazygit", "the same, also in directories below", _RARE),
    (".nvimrc", "Neovim", "commands at startup in this directory ('exrc')", _RARE),
    (".lvimrc", "Vim", "commands on opening a file (localvimrc)", _RARE),
    (".dir-locals.el", "Emacs", "variables on opening a file, some with code", _RARE),
    (".dir-locals-2.el", "Emacs", "the same", _RARE),
    (".helix", "Helix", "language servers and formatters on opening a file", _RARE),
    (".zed", "Zed", "language servers, tasks and MCP servers", _RARE),
    (".fleet", "Fleet", "run configurations", _RARE),
    (".vs", "Visual Studio", "tasks and startup settings", _RARE),
    (".gdbinit", "gdb", "commands at startup in this directory, if it is trusted", _RARE),
    (".lldbinit", "lldb", "the same", _RARE),
    (".pdbrc", "Python's pdb", "Python code at startup in this directory", _RARE),
    (".Rprofile", "R", "R code at startup in this directory", _RARE),
    (".Renviron", "R", "environment at startup in this directory, such as R_PROFILE_USER", _RARE),
    (".irbrc", "irb", "Ruby code at startup in this directory", _RARE),
    ("irb.rc", "irb", "the same", _RARE),
    ("_irbrc", "irb", "the same", _RARE),
    (".pryrc", "pry", "Ruby code at startup in this directory", _RARE),
    (".byebugrc", "byebug", "commands at startup in this directory", _RARE),
    (".iex.exs", "iex", "Elixir code at startup in this directory", _RARE),
    (".ghci", "ghci", "commands at startup in this directory", _RARE),
    (".ocamlinit", "OCaml", "OCaml code at startup in this directory", _RARE),
    (".octaverc", "Octave", "commands at startup in this directory", _RARE),
    (".perldb", "Perl's debugger", "Perl code at startup in this directory", _RARE),
    (".kiro", "Kiro", "hooks and MCP servers", _RARE),
    (".windsurf", "Windsurf", "MCP servers, hooks", _RARE),
    (".roo", "Roo Code", "MCP servers", _RARE),
    (".continue", "Continue", "MCP servers", _RARE),
    (".amazonq", "Amazon Q", "MCP servers, agents", _RARE),
    (".qwen", "Qwen Code", "MCP servers, settings", _RARE),
    (".factory", "Factory", "MCP servers, hooks", _RARE),
    (".junie", "Junie", "MCP servers", _RARE),
    (".trae", "Trae", "MCP servers", _RARE),
    (".clinerules/hooks", "Cline", "programs at each step", _RARE),
    (".agents/skills", "several agents", "programs of skills", _RARE),
    (".crush.json", "Crush", "MCP servers, language servers", _RARE),
    ("crush.json", "Crush", "the same", _RARE),
    (".claude/plugins", "Claude Code", "hooks and MCP servers of plugins", _RARE),
    (".github/copilot", "GitHub Copilot", "MCP servers", _RARE),
    (
        "opencode.json",
        "OpenCode",
        "MCP servers and plugins",
        _ABSENT,
    ),
    ("opencode.jsonc", "OpenCode", "the same", _ABSENT),
    (".aider.conf.yml", "Aider", "lint and test commands", _ABSENT),
    (".overcommit.yml", "overcommit", "hooks at each commit, once signed", _TRUST),
    ("lefthook.yml", "lefthook", "hooks at each commit", _RARE),
    (".lefthook.yml", "lefthook", "the same", _RARE),
    (".bash_aliases", "bash", "each interactive shell, if .bashrc sources it", _HOME),
    (".config/fish/conf.d", "fish", "each start", _HOME),
    (".config/fish/functions", "fish", "functions that replace programs", _HOME),
    (".config/git", "Git", "the user's configuration, attributes and hooks", _HOME),
    (".config/nvim", "Neovim", "Lua at startup", _HOME),
    (".config/systemd/user", "systemd", "services at the next login", _HOME),
    (".config/autostart", "desktops", "programs at the next login", _HOME),
    (".config/environment.d", "systemd", "environment, such as PATH, of the next login", _HOME),
    (".local/bin", "shells", "programs that are often first in PATH", _HOME),
    (".pam_environment", "PAM", "environment, such as PATH, of the next login", _HOME),
    (".tmux.conf", "tmux", "commands at startup", _HOME),
    (".screenrc", "screen", "commands at startup", _HOME),
    (".inputrc", "readline", "key bindings that type commands", _HOME),
    (".xprofile", "X11", "each login", _HOME),
    (".xsessionrc", "X11", "each login", _HOME),
    (".xinitrc", "X11", "each login", _HOME),
    (".ssh/config", "ssh", "ProxyCommand and Match exec, at each connection, also of Git", _HOME),
    (".ssh/rc", "sshd", "each login", _HOME),
    ("Library/LaunchAgents", "launchd", "programs at the next login", _HOME),
)

REPORTED = (
    ("sandbox.yaml", "sandwright", "the policy of the next run", _TRUST),
    (
        ".gitmodules",
        "Git",
        "URLs of submodules",
        _DATA,
    ),
    ("*.code-workspace", "VS Code", "tasks and settings, on opening it", _TRUST),
    ("*.sublime-project", "Sublime Text", "build systems", _BUILD),
    ("rust-toolchain.toml", "rustup", "`path` selects the cargo program, also at `cargo --version`", _BUILD),
    ("rust-toolchain", "rustup", "the same", _BUILD),
    (".cargo/config.toml", "cargo", "linkers, runners, wrappers and aliases", _BUILD),
    (".cargo/config", "cargo", "the same", _BUILD),
    (".npmrc", "npm, pnpm", "paths of the shell and Git, and registries", _BUILD),
    (".yarnrc", "yarn 1", "`yarn-path` selects the yarn program, also at `yarn --version`", _BUILD),
    (".yarnrc.yml", "yarn", "`yarnPath` and plugins, also at `yarn --version`", _BUILD),
    (".yarn/releases", "yarn", "the yarn program", _BUILD),
    (".yarn/plugins", "yarn", "plugins, at each command", _BUILD),
    (".pnpmfile.cjs", "pnpm", "hooks of each installation", _BUILD),
    (".mvn", "Maven", "extensions and JVM options", _BUILD),
    (".gradle/init.d", "Gradle", "scripts of each build", _BUILD),
    (".bundle/config", "Bundler", "build flags and paths", _BUILD),
    (".pylintrc", "pylint", "init-hook: Python code at each check, also in an editor", _BUILD),
    (".eslintrc.js", "ESLint", "JavaScript at each check, also in an editor", _BUILD),
    (".eslintrc.cjs", "ESLint", "the same", _BUILD),
    (".prettierrc.js", "Prettier", "JavaScript at each check, also in an editor", _BUILD),
    (".RData", "R", "objects at startup in this directory; a function `.First` among them runs", _SAVED),
    (".github/workflows", "GitHub Actions", "jobs with the repository's secrets, after a push", _OWN),
    (".gitlab-ci.yml", "GitLab CI", "the same", _OWN),
    (".claude/rules", "Claude Code", "nothing", _STEERS),
    (".claude/output-styles", "Claude Code", "nothing", _STEERS),
    (".cursorrules", "Cursor", "nothing", _STEERS),
)

LEFT = (
    ("Makefile", "make", "recipes", _OWN),
    ("package.json", "npm, yarn, pnpm", "scripts of installations, builds and tests", _OWN),
    ("pyproject.toml", "pip, pytest, …", "build back-ends and plugins", _OWN),
    ("setup.py", "pip", "Python code during the build", _OWN),
    ("conftest.py", "pytest", "Python code during test collection, also in an editor", _OWN),
    ("noxfile.py", "nox", "sessions", _OWN),
    ("tasks.py", "invoke", "tasks", _OWN),
    ("tox.ini", "tox", "commands", _OWN),
    ("justfile", "just", "recipes", _OWN),
    ("Rakefile", "rake", "tasks", _OWN),
    ("Gemfile", "Bundler", "Ruby code, also at startup of a language server", _OWN),
    ("build.rs", "cargo", "a program at each build, also by rust-analyzer", _OWN),
    ("Cargo.toml", "cargo", "procedural macros and build scripts", _OWN),
    ("go.mod", "go", "`toolchain` selects a version, which is verified by checksum", _OWN),
    ("build.gradle", "Gradle", "Groovy code at each evaluation, also in an editor", _OWN),
    ("pom.xml", "Maven", "plugins", _OWN),
    ("CMakeLists.txt", "CMake", "commands at configuration", _OWN),
    ("Dockerfile", "Docker", "commands in a container", _OWN),
    ("compose.yaml", "Docker", "containers with mounts of the host", _OWN),
    ("flake.nix", "Nix", "derivations in a sandbox", _OWN),
    ("node_modules/.bin", "npx, editors", "installed programs", _OWN),
    (".venv", "Python", "the interpreter that editors use", _OWN),
    ("AGENTS.md", "agents", "nothing", _STEERS),
    ("CLAUDE.md", "Claude Code", "nothing", _STEERS),
    (".editorconfig", "editors", "nothing: indentation settings", _OWN),
    (
        ".svn",
        "Subversion",
        "nothing: programs are named in ~/.subversion",
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
    """The paths of all rows with one of these decisions."""
    return tuple(each.path for each in NAMES if each.decision in decisions)
