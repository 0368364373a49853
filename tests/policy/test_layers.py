from pathlib import Path

import pytest

from mindx.core.command import Exec
from mindx.errors import InputError
from mindx.policy.engine import PolicyEngine
from mindx.policy.layers import PROJECT_FILE, Merged, distrust, load_layers, trust


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MINDX_CONFIG_DIR", str(tmp_path / "config"))


def user(tmp_path: Path, text: str) -> None:
    write(tmp_path / "config" / "policy.yaml", text)


def project(tmp_path: Path, text: str) -> Path:
    write(tmp_path / "project" / PROJECT_FILE, text)
    return tmp_path / "project"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"version: 1\n{text}\n")
    path.chmod(0o600)
    return path


def decision(merged: Merged, *argv: str) -> str:
    return PolicyEngine(merged.loaded.policy, autonomous=False).judge(Exec(argv)).decision


def test_without_any_layer_it_is_the_preset() -> None:
    merged = load_layers()
    assert [layer.name for layer in merged.layers] == ["preset"]
    assert merged.loaded.source == "preset:default"
    assert merged.origin["limits.memory"] == "preset"
    assert merged.origin["limits.nofile"] == "built-in"


def test_a_user_policy_without_an_allow_rule_tightens_the_preset(tmp_path: Path) -> None:
    user(tmp_path, "limits: {pids: 64, command_timeout: 5m}\ncommands: [{deny: git push}]")
    merged = load_layers()
    assert [layer.name for layer in merged.layers] == ["preset", "user"]
    limits = merged.loaded.policy.limits
    assert (limits.pids, merged.origin["limits.pids"]) == (64, "user")
    assert (limits.command_timeout_s, merged.origin["limits.command_timeout"]) == (60.0, "preset")
    assert (decision(merged, "git", "push"), decision(merged, "git", "log")) == ("deny", "allow")
    assert merged.loaded.sha256 != load_layers("default", None).layers[0].loaded.sha256


def test_a_user_policy_that_allows_is_the_base(tmp_path: Path) -> None:
    user(tmp_path, "commands: [{allow: make}]")
    merged = load_layers()
    assert [layer.name for layer in merged.layers] == ["user"]
    assert (decision(merged, "make"), decision(merged, "ls")) == ("allow", "deny")
    both = load_layers("default")
    assert [layer.name for layer in both.layers] == ["command line", "user"]
    assert (decision(both, "make"), decision(both, "ls")) == ("deny", "deny")


def test_an_untrusted_project_only_tightens(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        "limits: {memory: 8GiB, pids: 64}\nautonomous: always\nworkspace: {exclude: [a/]}\n"
        "commands: [{allow: [ls, make]}, {ask: cat}]",
    )
    merged = load_layers(None, folder)
    assert not merged.layers[1].trusted
    policy = merged.loaded.policy
    assert (policy.limits.memory_bytes, policy.limits.pids, policy.autonomous) == (1 << 30, 64, "flag")
    assert "a/" in policy.workspace.exclude
    assert [decision(merged, program) for program in ("ls", "make", "cat", "grep")] == ["allow", "deny", "ask", "deny"]
    verdict = PolicyEngine(policy, autonomous=False).judge(Exec(("cat",)))
    assert verdict.rule == "project:commands[1]"


@pytest.mark.parametrize(
    "text", ["image: other", "runtime: runc", "accept_gaps: [seccomp]", "workspace: {include: [.env]}"]
)
def test_an_untrusted_project_may_not_choose(tmp_path: Path, text: str) -> None:
    folder = project(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_layers(None, folder)
    assert caught.value.code == "policy_untrusted"
    assert f"mindx trust {folder}" in caught.value.message


def test_a_trusted_project_is_the_base_until_its_file_changes(tmp_path: Path) -> None:
    folder = project(tmp_path, "image: other\ncommands: [{allow: make}]")
    trust(folder)
    merged = load_layers(None, folder)
    assert merged.layers[0].name == "project"
    assert (merged.loaded.policy.image, decision(merged, "make")) == ("other", "allow")
    project(tmp_path, "image: other\ncommands: [{allow: [make, ls]}]")
    with pytest.raises(InputError, match="mindx trust"):
        load_layers(None, folder)


def test_trust_is_for_one_folder_and_can_be_taken_back(tmp_path: Path) -> None:
    folder = project(tmp_path, "commands: [{allow: make}]")
    other = tmp_path / "other"
    write(other / PROJECT_FILE, "commands: [{allow: make}]")
    trust(folder)
    assert load_layers(None, folder).layers[0].name == "project"
    assert load_layers(None, other).layers[0].name == "preset"
    assert distrust(folder)
    assert not distrust(folder)
    assert load_layers(None, folder).layers[0].name == "preset"


def test_the_command_line_stands_above_a_trusted_project(tmp_path: Path) -> None:
    folder = project(tmp_path, "image: other\ncommands: [{allow: [ls, make]}]")
    trust(folder)
    merged = load_layers("default", folder)
    assert [layer.name for layer in merged.layers] == ["command line", "project"]
    assert [decision(merged, program) for program in ("ls", "make", "cat")] == ["allow", "deny", "deny"]
    assert merged.loaded.policy.image == "python"


def test_an_include_of_the_base_does_not_bring_back_what_another_layer_excludes(tmp_path: Path) -> None:
    base = write(tmp_path / "p.yaml", "workspace: {exclude: [a], include: [a, b]}\ncommands: [{allow: ls}]")
    user(tmp_path, "workspace: {exclude: [b]}")
    patterns = load_layers(base).loaded.policy.workspace.patterns
    assert patterns.index("b", patterns.index("!b")) > patterns.index("!b")


def test_limits_that_do_not_fit_together_name_their_files(tmp_path: Path) -> None:
    user(tmp_path, "limits: {memory: 2GiB, workspace: 700MiB}")
    base = write(tmp_path / "p.yaml", "limits: {memory: 3GiB, workspace: 1GiB}\ncommands: [{allow: ls}]")
    assert load_layers(base).loaded.policy.limits.memory_bytes == 2 << 30
    user(tmp_path, "limits: {memory: 800MiB, workspace: 64MiB, tmp: 16MiB}")
    base = write(tmp_path / "p.yaml", "limits: {memory: 4GiB, tmp: 1GiB, workspace_inodes: 300000}")
    with pytest.raises(InputError) as caught:
        load_layers(base)
    assert caught.value.code == "policy_conflict"
    assert "config/policy.yaml" in caught.value.message
    assert "half of memory" in caught.value.message


def test_a_project_policy_behind_a_link_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "policy.yaml", "commands: [{allow: make}]")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".mindx").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="link"):
        load_layers(None, tmp_path / "project")


def test_a_change_on_disk_has_no_effect_on_what_was_loaded(tmp_path: Path) -> None:
    path = write(tmp_path / "p.yaml", "commands: [{allow: ls}]")
    merged = load_layers(path)
    write(path, "commands: [{allow: [ls, make]}]")
    assert decision(merged, "make") == "deny"
