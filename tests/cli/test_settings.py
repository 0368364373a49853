"""Settings: who goes before whom, what a project may and may not do, and names that are nearly right."""

import json
import re

import pytest

from mindx.core.folders import CONFIG_VARIABLE
from mindx.errors import InputError
from mindx.project_file import find_project_file, trust_project_file
from mindx.settings import effective_policy, policy_in_force, read_settings, unknown_variables
from mindx.society_settings import campaign_budget, coordinator_config


@pytest.fixture
def project(tmp_path, state_dir, monkeypatch):
    """A folder in a repository, and a configuration folder of the test's own."""
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))
    monkeypatch.delenv("MINDX_POLICY", raising=False)
    monkeypatch.delenv("MINDX_IMAGE", raising=False)
    (tmp_path / "config").mkdir()
    folder = tmp_path / "project"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    return folder


def write(project, text, name="mindx.yaml"):
    (project / name).write_text(text)
    return project / name


def test_a_flag_goes_before_a_variable_before_the_project_before_the_user(project):
    user = write(project.parent / "config", "policy: ci-eval\nimage: user\n", "config.yaml")
    path = write(project, "policy: read-only\nimage: ours\n")
    environ = {"MINDX_POLICY": "python-dev", "MINDX_IMAGE": "variable"}

    def read(policy=None, image=None, environ=environ, workspace=project):
        settings = read_settings(policy, image, workspace, environ)
        return (settings.policy.value, settings.policy.origin, settings.image.value, settings.image.origin)

    assert read("default", "flag") == ("default", "--policy", "flag", "--image")
    assert read() == ("python-dev", "MINDX_POLICY", "variable", "MINDX_IMAGE")
    assert read(environ={}) == ("read-only", str(path), "ours", str(path))
    assert read(environ={}, workspace=None) == ("ci-eval", str(user), "user", str(user))
    user.unlink()
    assert read(environ={}, workspace=None) == (None, "built-in", None, "built-in")


def test_the_file_is_found_upwards_and_not_beyond_the_repository(project):
    outside = write(project.parent, "exclude: ['*.x']\n")
    assert find_project_file(project / "src" / "deep") is None
    path = write(project, "exclude: ['*.log']\n")
    assert find_project_file(project / "src" / "deep") == path
    assert find_project_file(project.parent) == outside


def test_the_search_ends_where_anybody_may_put_a_file(project):
    (project / ".git").rmdir()
    path = write(project, "exclude: ['*.log']\n")
    project.chmod(0o1777)
    assert find_project_file(project / "src" / "deep") is None
    project.chmod(0o755)
    assert find_project_file(project / "src" / "deep") == path


def test_a_project_tightens_without_trust(project):
    assert effective_policy(None, None, project).policy.limits.memory_bytes == 1 << 30
    write(project, "policy: read-only\nexclude: ['*.log']\n")
    merged = policy_in_force(read_settings(workspace=project), project)
    policy = merged.loaded.policy
    assert policy.limits.memory_bytes == 512 << 20
    assert "*.log" in policy.workspace.exclude
    assert merged.origin["limits.memory"] == "project"
    # It denies what it does not allow, and cannot allow what the base does not.
    from mindx.core.command import Exec
    from mindx.policy.engine import PolicyEngine

    engine = PolicyEngine(policy, autonomous=False)
    assert not engine.judge(Exec(("python3", "x.py"), timeout_s=5)).allowed
    assert engine.judge(Exec(("cat", "x.py"), timeout_s=5)).allowed


def test_a_project_cannot_loosen_even_by_a_policy_file_of_its_own(project):
    write(project, "version: 1\nlimits: {memory: 8GiB, pids: 4096}\ncommands:\n  - allow: [curl, cat]\n", "own.yaml")
    write(project, "policy: own.yaml\n")
    policy = effective_policy(None, None, project).policy
    assert (policy.limits.memory_bytes, policy.limits.pids) == (1 << 30, 128)
    from mindx.core.command import Exec
    from mindx.policy.engine import PolicyEngine

    assert not PolicyEngine(policy, autonomous=False).judge(Exec(("curl", "x"), timeout_s=5)).allowed


def test_an_image_wants_trust_and_trust_ends_with_the_content(project):
    path = write(project, "image: node\npolicy: own.yaml\n")
    write(project, "version: 1\ncommands:\n  - allow: cat\n", "own.yaml")
    with pytest.raises(InputError, match=f"mindx trust {project}") as caught:
        effective_policy(None, None, project)
    assert caught.value.code == "policy_untrusted"
    trust_project_file(path)
    loaded = effective_policy(None, None, project)
    assert loaded.policy.image == "node"
    assert effective_policy(None, "python", project).policy.image == "python"
    write(project, "version: 1\ncommands:\n  - allow: curl\n", "own.yaml")  # the file beside it counts too
    with pytest.raises(InputError, match="mindx trust"):
        effective_policy(None, None, project)


def test_what_was_trusted_is_what_is_in_force(project):
    path = write(project, "policy: own.yaml\n")
    own = write(project, "version: 1\ncommands:\n  - allow: cat\n", "own.yaml")
    trust_project_file(path)
    settings = read_settings(workspace=project)
    assert settings.project.trusted
    own.write_text("version: 1\ncommands:\n  - allow: curl\n")  # between the check and the use
    rules = policy_in_force(settings, project).loaded.policy.commands
    assert [rule.texts for rule in rules] == [("cat",)]


@pytest.mark.parametrize("named", ["{outside}", "../outside.yaml", "src/../../outside.yaml", "link/outside.yaml"])
@pytest.mark.parametrize("there", [True, False])
def test_a_policy_outside_its_folder_wants_trust(project, named, there):
    outside = project.parent / "outside.yaml"
    if there:
        outside.write_text("version: 1\ncommands:\n  - allow: cat\n")
    (project / "link").symlink_to(project.parent)
    path = write(project, f"policy: {named.format(outside=outside)}\n")
    with pytest.raises(InputError, match="mindx trust") as caught:
        read_settings(workspace=project)
    assert caught.value.code == "policy_untrusted"
    if there:
        trust_project_file(path)
        assert read_settings(workspace=project).project.trusted


def test_the_users_own_file_bounds_campaigns_and_the_coordinator(project):
    """A flag goes before the file, that before the defaults; a slip is told, with the key that was meant."""
    file = write(project.parent / "config", "campaign: {max_tokens: 5, max_per_day: 2}\n", "config.yaml")
    budget = campaign_budget({"max_tokens": 7, "max_seconds": None})
    assert (budget.max_tokens, budget.max_per_day, budget.max_seconds) == (7, 2, 3600.0)
    file.write_text("coordinator: {auto_apply: false, resources: {cpu_percent: 70}}\n")
    config = coordinator_config()
    assert (config.auto_apply, config.resources.cpu_percent, config.max_attempts) == (False, 70.0, 3)
    for text, told in (
        ("campaign: {max_token: 5}", "did you mean `max_tokens`?"),
        ("campaign: {max_tokens: 0}", "max_tokens"),
        ("campaign: 5", "campaign: this must be a list of keys and values"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=re.escape(told)) as caught:
            campaign_budget()
        assert str(file) in caught.value.message
    file.unlink()
    write(project, "campaign: {max_tokens: 5}\n")
    with pytest.raises(InputError, match="there is no key 'campaign'"):  # a project bounds nobody
        read_settings(None, None, project)


def test_what_the_users_file_says_of_the_society_holds_on_the_command_line(mindx, script):
    (mindx.folder / "config").mkdir()
    file = mindx.folder / "config" / "config.yaml"
    mindx.env["MINDX_CONFIG_DIR"] = str(file.parent)
    file.write_text("campaign: {max_bdi_cycles: 3}\ncoordinator: {auto_apply: false}\n")
    shown = mindx("config", "show", "--json").json["settings"]
    assert shown["campaign.max_bdi_cycles"] == {"value": "3", "origin": str(file)}
    assert shown["coordinator.auto_apply"] == {"value": "false", "origin": str(file)}
    over = mindx("campaign", "run", "x", "--max-cycles", "4", "--script", script("x"))
    assert (over.code, "the budget allows 1 to 3" in over.err) == (2, True)
    file.write_text("coordinator: {auto_aply: false}\n")
    for arguments in (("campaign", "run", "x", "--script", script("x")), ("coordinator", "work", "--workspace", ".")):
        wrong = mindx(*arguments)
        assert (wrong.code, "did you mean `auto_apply`?" in wrong.err) == (2, True)


def test_a_trusted_image_without_a_policy_is_used(project):
    trust_project_file(write(project, "image: node\n"))
    assert effective_policy(None, None, project).policy.image == "node"


def test_the_users_own_file_names_the_base_and_excludes(project):
    write(project.parent / "config", "policy: python-dev\nexclude: ['*.tmp']\nimage: node\n", "config.yaml")
    loaded = effective_policy(None, None, project)
    assert (loaded.name, loaded.policy.image) == ("python-dev", "node")
    assert "*.tmp" in loaded.policy.workspace.exclude
    assert loaded.sha256 == loaded.policy.sha256


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("polcy: default\n", "did you mean `policy`?"),
        ("exlude: []\n", "did you mean `exclude`?"),
        ("exclude: ['!x']\n", "exclude"),
        ("- a\n", "mapping"),
        ("policy: [a]\n", "policy"),
        ("policy: a\npolicy: b\n", "line 2"),
        ("policy: &x a\n", "line 1"),
        ("policy: defualt\n", "did you mean `default`?"),
    ],
)
def test_a_file_that_is_not_understood_is_one_message(project, text, words):
    write(project, text)
    with pytest.raises(InputError) as caught:
        effective_policy(None, None, project)
    assert words in caught.value.message


def test_an_empty_file_says_nothing(project):
    write(project, "# nothing yet\n")
    assert effective_policy(None, None, project).policy == effective_policy(None).policy


def test_variables_that_nobody_reads_are_told():
    found = unknown_variables({"MINDX_POLCY": "x", "MINDX_POLICY": "y", "HOME": "/"})
    assert found == {"MINDX_POLCY": "did you mean `MINDX_POLICY`?"}


def test_config_show_tells_origins(mindx):
    (mindx.folder / "mindx.yaml").write_text("policy: read-only\n")
    mindx.env["MINDX_CONFIG_DIR"] = str(mindx.folder / "none")
    done = mindx("config", "show", "--origin", env={"MINDX_IMGE": "x"})
    assert done.code == 0
    assert "did you mean `MINDX_IMAGE`?" in done.err
    # A project that is not trusted is no base: what it names tightens another's.
    assert ["policy", "default", "(built-in)"] in [line.split() for line in done.out.splitlines()]
    assert ["tightened_by", str(mindx.folder / "mindx.yaml")] in [line.split()[:2] for line in done.out.splitlines()]
    document = mindx("config", "show", "--json", "--policy", "ci-eval").json
    assert document["settings"]["policy"] == {"value": "ci-eval", "origin": "--policy"}
    assert document["settings"]["project_file"]["origin"] == "not trusted: it can only tighten"
    assert document["settings"]["tightened_by"]["value"] == [str(mindx.folder / "mindx.yaml")]


def test_a_run_obeys_the_projects_file(mindx):
    (mindx.folder / "mindx.yaml").write_text("policy: read-only\n")
    mindx.env["MINDX_CONFIG_DIR"] = str(mindx.folder / "none")
    step = {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "argv": ["python3", "-V"]}}
    plan = mindx.plan([step])
    assert mindx("check", plan).code == 0
    assert mindx("check", plan, "--workspace", ".").code == 3
    done = mindx("run", plan, "--workspace", ".", "--json")
    assert (done.code, json.loads(done.out)["outcome"]) == (3, "denied")
    assert mindx("exec", "--workspace", ".", "--", "python3", "-V").code == 126


def test_trust_takes_both_files(mindx):
    (mindx.folder / "mindx.yaml").write_text("image: node\n")
    done = mindx("trust", ".")
    assert done.code == 0
    assert "mindx.yaml is trusted" in done.out
    assert mindx("config", "show", "--json").json["settings"]["image"]["value"] == "node"
    assert mindx("trust", "--forget", ".").out.endswith("is trusted no longer.\n")
    assert mindx("config", "show").code == 2


@pytest.mark.parametrize(("typed", "meant"), [("rnu", "run"), ("exce", "exec"), ("docter", "doctor")])
def test_a_verb_that_is_nearly_right(mindx, typed, meant):
    done = mindx(typed)
    assert done.code == 2
    assert f"did you mean `{meant}`?" in done.err
