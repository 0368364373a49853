import pytest

from mindx.core.command import Command, Exec, ReadFile
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import PRESETS, load_policy, parse_policy
from mindx.policy.model import Policy
from mindx.policy.review import review
from mindx.policy.suggest import as_yaml, suggest


def policy(rules: str) -> Policy:
    return parse_policy(f"version: 1\ncommands: {rules}\n".encode(), source="t").policy


@pytest.mark.parametrize("name", PRESETS)
def test_the_presets_have_nothing_odd(name: str) -> None:
    assert review(load_policy(name).policy) == []


@pytest.mark.parametrize(
    ("rules", "index", "kind", "words"),
    [
        ("[{allow: ls}, {deny: ls}]", 0, "shadowed", "commands[1]"),
        ("[{allow: ls **}, {allow: ls}]", 1, "shadowed", "is before it"),
        ("[{allow: ls}, {allow: ls}]", 1, "shadowed", "commands[0]"),
        ("[{deny: git push}, {allow: git (push)}]", 1, "shadowed", "commands[0]"),
        ("[{allow: python3, at_most: read-only}]", 0, "unreachable", "can never allow"),
        ("[{allow: sudo ls}]", 0, "unreachable", "cannot be judged"),
        ("[{allow: find -exec ls, at_most: write}]", 0, "unreachable", "at most write"),
        ("[{allow: python3}]", 0, "broad", "any code"),
        ("[{allow: bash **}]", 0, "broad", "any code"),
        ("[{allow: git}]", 0, "broad", "other programs"),
        ("[{allow: sort}]", 0, "broad", "other programs"),
        ("[{allow: frobnicate}]", 0, "broad", "not a known program"),
    ],
)
def test_an_odd_rule_is_found(rules: str, index: int, kind: str, words: str) -> None:
    findings = [one for one in review(policy(rules)) if one.index == index]
    assert [one.kind for one in findings] == [kind]
    assert words in findings[0].message


@pytest.mark.parametrize(
    "rules",
    [
        "[{allow: ls}, {deny: ls -l}, {ask: cat}]",
        "[{allow: python3, reason: it is a container}, {allow: git}]",
        "[{allow: python3 -m pytest}, {allow: pytest tests}]",
        "[{allow: git, at_most: read-only}, {allow: git commit -m *}]",
        "[{allow: bash -o pipefail -c *}, {allow: [ls, cat]}]",
    ],
)
def test_a_plain_rule_is_left_alone(rules: str) -> None:
    assert review(policy(rules)) == []


def suggestions(rules: str, *commands: Command) -> str:
    engine = PolicyEngine(policy(rules), autonomous=True)
    return as_yaml(suggest(engine, [("run1", command) for command in commands]))


def test_what_is_allowed_needs_no_rule() -> None:
    assert suggestions("[{allow: ls}]", Exec(("ls",)), ReadFile("/workspace/a")) == ""


def test_a_known_program_is_suggested_with_its_risk_and_its_evidence() -> None:
    text = suggestions("[]", Exec(("git", "log", "-5")), Exec(("git", "log")), Exec(("sort", "-o", "x", "y")))
    assert '- allow: "git log **"\n    at_most: read-only\n' in text
    assert "# run1: git log -5\n" in text
    assert '- allow: "sort"\n    at_most: write\n' in text


@pytest.mark.parametrize(
    "argv",
    [
        ("bash", "-c", "ls"),
        ("python3", "-c", "print('a b')"),
        ("make", "all"),
        ("awk", "{print $1}"),
        ("frob", "a b", "*"),
    ],
)
def test_a_shell_or_an_interpreter_is_suggested_with_its_arguments_only(argv: tuple[str, ...]) -> None:
    text = suggestions("[{allow: ls}]", Exec(argv))
    rules = parse_policy(f"version: 1\n{text}".encode(), source="suggested").policy
    assert [len(rule.patterns[0].elements) for rule in rules.commands] == [max(len(argv) - 1, 1)]
    judge = PolicyEngine(policy(f"[{{allow: ls}}, {text_of(rules)}]"), autonomous=False).judge
    assert judge(Exec(argv)).allowed
    if len(argv) > 1:
        assert not judge(Exec((*argv, "more"))).allowed
        assert not judge(Exec(argv[:-1])).allowed


def text_of(rules: Policy) -> str:
    import json

    return ", ".join(json.dumps({"allow": rule.texts[0]}) for rule in rules.commands)


@pytest.mark.parametrize(
    "argv",
    [("python3", "-c", "print('a \"b')"), ("python3",), ("bash",), ("make",), ("frob", "a'\"")],
)
def test_what_only_a_pattern_for_any_code_would_cover_is_left_to_a_person(argv: tuple[str, ...]) -> None:
    text = suggestions("[]", Exec(argv))
    assert "allow" not in text.replace("no rule can allow", "")
    assert "write the rule by hand" in text


def test_the_suggested_rules_are_enough_for_what_was_done() -> None:
    done = [
        Exec(("bash", "-c", "ls | wc -l && git status")),
        Exec(("tar", "xf", "a.tgz")),
        Exec(("timeout", "5", "ls")),
    ]
    text = suggestions("[]", *done)
    judge = PolicyEngine(parse_policy(f"version: 1\n{text}".encode(), source="s").policy, autonomous=False).judge
    assert [judge(command).decision for command in done] == ["allow"] * 3


def test_what_no_rule_can_allow_is_said() -> None:
    text = suggestions("[]", Exec(("sudo", "ls")), Exec(("ls",), cwd="/etc"), Exec(("bash", "-c", "$x")))
    assert "# no rule can allow: sudo ls" in text
    assert "not a path under /workspace" in text
