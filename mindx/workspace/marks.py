"""Marks: files that run on the user's machine later, by a tool that reads them without being asked.

A plan that cannot leave its container can still write a Makefile, a git hook or an editor's task. Nothing here is a
boundary: the table lists what is known, and the user decides. A name ends with `/` if it means a folder; case
counts only in a word that has capitals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mindx.workspace.changes import Change, folded

TABLE: dict[str, str] = {
    "git hook": ".githooks/ .husky/ .git-hooks/ hooks/applypatch-msg hooks/pre-applypatch hooks/post-applypatch "
    "hooks/pre-commit hooks/pre-merge-commit hooks/prepare-commit-msg hooks/commit-msg hooks/post-commit "
    "hooks/pre-rebase hooks/post-checkout hooks/post-merge hooks/pre-push hooks/pre-receive hooks/update "
    "hooks/post-receive hooks/post-update hooks/push-to-checkout hooks/pre-auto-gc hooks/post-rewrite "
    "hooks/fsmonitor-watchman .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml "
    "lefthook*.yml lefthook*.yaml lefthook*.toml .lefthook*.yml .lefthook/ .huskyrc* .lintstagedrc* "
    ".overcommit.yml .overcommit/ captainhook.json .prek.toml prek.toml",
    "version control settings": ".gitattributes .gitmodules .gitconfig .lfsconfig .hgrc .hg/ .svn/ .bzr/ .jj/",
    "CI file": ".github/workflows/ .github/actions/ action.yml action.yaml .gitlab-ci*.yml .gitlab-ci*.yaml "
    ".gitlab/ci/ .circleci/ jenkinsfile* *.jenkinsfile .travis.yml azure-pipelines*.yml "
    "azure-pipelines*.yaml .azure-pipelines/ .drone.yml .drone.star .drone.jsonnet "
    "bitbucket-pipelines.yml .woodpecker.yml .woodpecker.yaml .woodpecker/ .buildkite/ appveyor.yml "
    ".appveyor.yml .cirrus.yml .cirrus.star .semaphore/ .teamcity/ .forgejo/workflows/ .gitea/workflows/ "
    "buildspec*.yml cloudbuild*.yaml .builds/ .build.yml .tekton/ .earthly/ dagger.json .dagger/ "
    ".github/dependabot.yml",
    "task file": "makefile gnumakefile bsdmakefile *.mk *.mak makefile.* justfile .justfile *.just taskfile*.yml "
    "taskfile*.yaml rakefile rakefile.rb noxfile.py dodo.py fabfile.py fabfile/ invoke.yaml tox.ini "
    "magefile.go magefiles/ procfile* mise.toml .mise.toml .mise/ .config/mise.toml .config/mise/ "
    ".tool-versions cakefile gulpfile.* gruntfile.* jakefile* duties.py poe_tasks.* vagrantfile snakefile "
    "*.smk nextflow.config "
    "earthfile guardfile capfile thorfile dangerfile brewfile pixi.toml .pixi/ moon.yml .moon/ xmake.lua premake5.lua "
    "build.pl nodemon.json terragrunt.hcl ansible.cfg locustfile.py gunicorn.conf.py uwsgi.ini",
    "container build": "dockerfile* *.dockerfile containerfile* docker-compose*.yml docker-compose*.yaml compose*.yml "
    "compose*.yaml docker-bake.hcl docker-bake.json docker-bake.override.* tiltfile skaffold.yaml "
    ".devcontainer/ .devcontainer.json devfile.yaml .gitpod.yml .gitpod.dockerfile",
    "build file": "cmakelists.txt *.cmake cmakepresets.json cmakeuserpresets.json meson.build meson_options.txt "
    "meson.options sconstruct sconscript wscript build.ninja workspace.bazel module.bazel build.bazel "
    "*.bzl .bazelrc bazelisk* .buckconfig pants.toml build.gradle* settings.gradle* init.gradle* gradlew "
    "gradlew.bat gradle.properties gradle/wrapper/ pom.xml mvnw mvnw.cmd .mvn/ build.sbt "
    "project/plugins.sbt *.sbt configure configure.ac configure.in makefile.am makefile.in autogen.sh "
    "build.rs .cargo/ cargo.toml rust-toolchain rust-toolchain.toml build.zig build.zig.zon *.vcxproj "
    "directory.build.* dune-project *.cabal setup.hs stack.yaml flake.nix shell.nix default.nix "
    "devenv.nix .nix/ guix.scm package.swift project.clj deps.edn build.boot shadow-cljs.edn build.clj "
    "bb.edn rebar.config rebar.config.script *.podspec podfile fastfile fastlane/ pubspec.yaml BUILD "
    "WORKSPACE *.csproj *.targets *.props build.xml",
    "package scripts": "package.json .npmrc .yarnrc .yarnrc.yml .yarn/ .pnpmfile.cjs .pnpmfile.mjs pnpm-workspace.yaml "
    "binding.gyp bunfig.toml deno.json deno.jsonc composer.json gemfile gems.rb *.gemspec .bundle/ "
    "mix.exs lerna.json nx.json turbo.json "
    "angular.json project.json rush.json pipfile cpanfile .ncurc* .pnp.cjs foundry.toml .swcrc",
    "tool that runs code": "*.config.js *.config.cjs *.config.mjs *.config.ts *.config.mts *.config.cts .eslintrc* "
    ".babelrc* babel.config.json "
    ".stylelintrc* .mocharc* karma.conf.* .storybook/ .pylintrc pylintrc mypy.ini .mypy.ini "
    ".flake8 .ropeproject/ .ycm_extra_conf.py .prettierrc* .remarkrc* .commitlintrc* .releaserc* .postcssrc* "
    "*.config.*.js *.config.*.ts .rubocop.yml .luacheckrc .formatter.exs .credo.exs .iex.exs .ocamlinit .clangd "
    ".php-cs-fixer* phpstan.neon* rector.php psalm.xml conf.py mkdocs.yml _plugins/ jupyter_*_config.py "
    "ipython_config.py",
    "test set-up": "conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml .rspec jest.setup.* vitest.setup.* "
    ".coveragerc .taprc phpunit.xml* .busted behave.ini test_helper.exs .nycrc .c8rc*",
    "Python build or start-up": "pyproject.toml setup.py setup.cfg sitecustomize.py usercustomize.py *.pth hatch.toml "
    "hatch_build.py pdm.toml pdm_build.py uv.toml pip.conf .pdbrc pyvenv.cfg .pythonrc.py .ipython/ .jupyter/ "
    "poetry.toml",
    "editor settings": ".vscode/ .vscode-server/ *.code-workspace .idea/ *.iml .fleet/ .zed/ .vim/ .vimrc .gvimrc "
    ".exrc .nvimrc .nvim.lua .nvim/ .lvimrc .local.vimrc .config/nvim/ .dir-locals.el .dir-locals-2.el .emacs "
    ".emacs.d/ .projectile *.sublime-project *.sublime-settings .helix/ .nanorc .gdbinit .lldbinit .lldb/ "
    ".vs/ *.xcodeproj/ *.xcworkspace/ pyrightconfig.json",
    "agent settings": "agents.md agents.override.md agent.md claude.md claude.local.md gemini.md copilot.md warp.md "
    "crush.md qwen.md .claude/ .claude.json .cursor/ .cursorrules .windsurf/ .windsurfrules .clinerules "
    ".clinerules/ .cline/ .roo/ .roorules* .roomodes .kilocode/ .codex/ .gemini/ .qwen/ .aider* "
    ".continue/ .continuerc.json .mcp.json mcp.json .mcp/ .goosehints .goose/ .junie/ .kiro/ .amazonq/ "
    ".augment/ .augment-guidelines .trae/ .opencode/ opencode.json opencode.jsonc .crush.json crush.json "
    ".factory/ .openhands/ .github/copilot-instructions.md .github/instructions/ .github/prompts/ "
    ".github/agents/ .github/chatmodes/ .github/hooks/ .github/skills/ .agents/ .agent/ .mindx/ .tabnine/ "
    ".sourcegraph/ .zencoder/",
    "shell start-up file": ".envrc .direnvrc .env .env.* .bashrc .bash_profile .bash_login .bash_logout .bash_aliases "
    ".bash_completion .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc "
    ".fishrc .config/fish/ .inputrc .tmux.conf .screenrc .autoenv .env.fish .xinitrc .xprofile .xsession "
    ".xsessionrc .pam_environment .config/autostart/ .config/systemd/ .config/environment.d/ *.desktop "
    "*.service *.timer crontab .crontab cron.d/ launchagents/ launchdaemons/ .ssh/ .rprofile .renviron "
    ".irbrc .pryrc .perldb .psqlrc .my.cnf .curlrc .wgetrc .noderc .ghci .asdfrc .docker/ .config/pip/ "
    ".pip/",
}
BARE_REPOSITORY = "git repository in the open"


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    names: re.Pattern[str]
    folders: re.Pattern[str] | None


def _compile() -> tuple[_Row, ...]:
    rows = []
    for label, text in TABLE.items():
        words = text.split()
        names = [word for word in words if not word.endswith("/")]
        folders = [word for word in words if word.endswith("/")]
        rows.append(_Row(label, _any(f"(?:.*/)?{_glob(word)}" for word in names), _folders(folders)))
    return tuple(rows)


def _glob(word: str) -> str:
    # A star stays within one name; a word in capitals means just that spelling (BUILD, but not build).
    text = "[^/]*".join(re.escape(part) for part in word.split("*"))
    return text if word != word.lower() else f"(?i:{text})"


def _any(expressions: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{expression})" for expression in expressions), re.DOTALL)


def _folders(words: Sequence[str]) -> re.Pattern[str] | None:
    return _any(f"(?:.*/)?{_glob(word[:-1])}/.*" for word in words) if words else None


_ROWS = _compile()


def marks(path: str) -> tuple[str, ...]:
    """Return what kinds of file that run on the user's machine this path is, none if it is of no known kind."""
    plain = "/".join(folded(name) or name for name in path.split("/"))
    return tuple(
        row.label
        for row in _ROWS
        if row.names.fullmatch(plain) or (row.folders is not None and row.folders.fullmatch(plain))
    )


def marks_of(changes: Iterable[Change], known: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return the marks of each Change that has any, by path: of files that are written, not of what is removed.

    `known` are paths that stand there besides: what was copied in, and Changes that were not chosen. Files of a folder
    that looks like a git repository without a .git (HEAD, objects, refs) are marked too: git runs the commands in its
    config when the user enters it.
    """
    written = [change for change in changes if change.has_content]
    parts = (path.rpartition("/") for path in (*known, *(change.path for change in written)))
    heads = {folder for folder, _, name in parts if name.casefold() == "head"}
    found: dict[str, tuple[str, ...]] = {}
    for change in written:
        folder, _, name = change.path.rpartition("/")
        labels = marks(change.path)
        if folder in heads and name.casefold() in ("head", "config", "config.worktree", "commondir"):
            labels = (*labels, BARE_REPOSITORY)
        if labels:
            found[change.path] = labels
    return found
