"""Shell lines: taken apart by tree-sitter's bash grammar into leaves, each of which is judged by itself.

Only what is known is let through: a node, a token or a byte between tokens that is not listed here is a denial with its
place. So are functions, arithmetic with variables (bash evaluates code in it), indirect expansions, files of
redirections that only the shell will know, and lines beyond the limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from mindx.policy.shell_leaf import Leaf, ShellFault
from mindx.policy.shell_redirects import Redirections
from mindx.policy.shell_words import Words
from mindx.policy.variables import variable_problem
from mindx.policy.words import Dynamic
from mindx.policy.wrappers import SHELLS

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LINE_BYTES = 32 * 1024
MAX_NODES = 5_000
MAX_DEPTH = 60
MAX_LEAVES = 256
_WORDS = frozenset(
    {"word", "number", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion"}
    | {"command_substitution", "process_substitution", "arithmetic_expansion", "brace_expression"}
)
_RESERVED = frozenset(
    {"coproc", "function", "select", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then"}
    | {"until", "while", "[[", "]]", "{", "}", "!"}
)
_TOKENS = frozenset(
    {"&&", "||", ";", ";;", ";&", ";;&", "&", "|", "|&", "(", ")", "{", "}", "!", "\n", "if", "then", "elif", "else"}
    | {"fi", "for", "in", "do", "done", "while", "until", "case", "esac"}
)
_PLAIN_KINDS = (
    "program list pipeline subshell compound_statement do_group if_statement elif_clause else_clause while_statement"
    " negated_command variable_assignments"
)


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def leaves(line: str) -> list[Leaf]:
    """Return what a line for bash does, in order. Raises ShellFault for what cannot be judged."""
    try:
        source = line.encode("utf-8")
    except UnicodeEncodeError:
        raise ShellFault("the line holds a byte that is not UTF-8", (1, 1)) from None
    if len(source) > MAX_LINE_BYTES:
        raise ShellFault(f"the line is longer than {MAX_LINE_BYTES} bytes; write a script and run that", (1, 1))
    for number, text in enumerate(line.split("\n"), 1):
        for column, char in enumerate(text, 1):
            if char != "\t" and not char.isprintable():  # no other blank is printable than the space
                raise ShellFault(f"the character {char!a} has no place in a line", (number, column))
    joined = re.search(r"(?<![ \t])\\\n", line)
    if joined is not None:  # bash joins the words around it, the grammar does not always
        place = line.count("\n", 0, joined.start()) + 1, joined.start() - line.rfind("\n", 0, joined.start())
        raise ShellFault("a line that goes on after a backslash needs a space before that", place)
    walker, root = _Walker(source), _parser().parse(source).root_node
    if root.has_error:
        raise walker.refuse(_error(root), "this is not understood as bash")
    walker.statement(root)
    return walker.leaves


def _error(node: Node) -> Node:
    """Return the innermost node of a tree that is not understood."""
    while (inside := next((child for child in node.children if child.has_error), None)) is not None:
        node = inside
    return node


class _Walker(Redirections):
    def __init__(self, source: bytes) -> None:
        self.source = source
        self.leaves: list[Leaf] = []
        self.nodes = 0
        self.depth = 0
        self.words = Words(source, self.nested, self.refuse)
        self.kinds: dict[str, Callable[[Node], None]] = {
            "command": self.command,
            "redirected_statement": self.redirected,
            "variable_assignment": self.assignment,
            "declaration_command": self.declaration,
            "unset_command": self.unset,
            "test_command": self.test,
            "for_statement": self.loop,
            "case_statement": self.case,
            "comment": lambda node: None,
        }
        for kind in _PLAIN_KINDS.split():
            self.kinds[kind] = self.children

    def statement(self, node: Node) -> None:
        """Judge one statement, by its kind."""
        self.nodes += 1
        self.depth += 1
        if self.nodes > MAX_NODES or self.depth > MAX_DEPTH or len(self.leaves) > MAX_LEAVES:
            raise self.refuse(node, "the line is too long or too deep; write a script and run that")
        handler = self.kinds.get(node.type)
        if handler is None:
            kind = node.type.replace("_", " ")
            raise self.refuse(node, f"a {kind} is not judged here; write a script and run that" if node.is_named
                              else f"{self.text(node)!r} is not understood here")  # fmt: skip
        handler(node)
        self.depth -= 1

    def nested(self, node: Node) -> None:
        """Judge what stands inside $( ), ` `, <( ) or >( )."""
        for child in node.children:
            if child.is_named:
                self.statement(child)
        self.gaps(node, lines=True)

    def children(self, node: Node) -> None:
        for child in node.children:
            if child.is_named:
                self.statement(child)
            elif child.type not in _TOKENS:
                raise self.refuse(child, f"{self.text(child)!r} is not understood here")
        self.gaps(node, lines=True)

    def gaps(self, node: Node, *, lines: bool = False) -> None:
        """Refuse text that no token covers, as bash would not skip it. `lines`: line ends may stand there."""
        position = node.start_byte
        for child in node.children:
            self.gap(node, position, child.start_byte, lines)
            position = max(position, child.end_byte)
        self.gap(node, position, node.end_byte, lines)
        if node.parent is None:
            self.gap(node, 0, node.start_byte, lines)
            self.gap(node, position, len(self.source), lines)

    def gap(self, node: Node, start: int, end: int, lines: bool) -> None:
        blank = rb"(?:[ \t\n]|\\\n)*" if lines else rb"(?:[ \t]|\\\n)*"
        if re.fullmatch(blank, self.source[start:end]) is None:
            raise self.refuse(node, f"{self.source[start:end][:20].decode(errors='replace')!r} is not understood here")

    def command(self, node: Node) -> None:
        argv: list[str] = []
        env: list[tuple[str, str]] = []
        inputs: list[str] = []
        first = len(self.leaves)
        for child in node.children:
            if child.type == "variable_assignment":
                env.append(self.assigned(child))
            elif child.type == "command_name":
                argv.append(self.words.word(child.children[0]) if child.child_count == 1 else self.program(child))
            elif child.type in _WORDS:
                argv.append(self.words.word(child))
            elif child.type in ("file_redirect", "herestring_redirect"):
                inputs += self.redirect(child)
            else:
                raise self.refuse(child, f"{self.text(child)[:40]!r} is not understood here")
        self.gaps(node)
        if not argv:
            return
        if isinstance(argv[0], Dynamic):
            raise self.refuse(node, "which program this is, is known only when it runs; name it")
        if argv[0] in _RESERVED:
            raise self.refuse(node, f"{argv[0]} is a word of the shell, not a program")
        place = node.start_point[0] + 1, node.start_point[1] + 1
        self.leaves.append(Leaf(tuple(argv), place, tuple(env)))
        self.feed(node, inputs, first)

    def program(self, node: Node) -> str:
        raise self.refuse(node, "which program this is, is not understood; name it")

    def redirected(self, node: Node) -> None:
        first, inputs = len(self.leaves), []
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                inputs += self.redirect(child)
            else:
                self.statement(child)
        self.gaps(node)
        self.feed(node, inputs, first)

    def feed(self, node: Node, inputs: list[str], first: int) -> None:
        """Judge text that is fed to a shell as the line that it is."""
        if SHELLS.isdisjoint(leaf.argv[0] for leaf in self.leaves[first:] if leaf.argv):
            return
        for text in inputs:
            if isinstance(text, Dynamic):
                raise self.refuse(node, "what this shell is fed is known only when it runs; write it out")
            self.leaves.append(Leaf(place=(node.start_point[0] + 1, node.start_point[1] + 1), line=text))

    def assigned(self, node: Node) -> tuple[str, str]:
        """Return name and value of one assignment, after judging both."""
        name, value = node.children[0], node.children[2] if node.child_count > 2 else None
        if name.type != "variable_name":
            raise self.refuse(node, "assigning to a part of an array is not judged here")
        if value is not None and value.start_byte != node.children[1].end_byte:
            raise self.refuse(node, "nothing may stand between a variable, = and its value")
        text = ""
        if value is not None and value.type == "array":
            for child in value.children:
                if child.is_named:
                    self.words.word(child)
                elif child.type not in "()":
                    raise self.refuse(child, "this array is not understood")
            self.gaps(value, lines=True)
            text = Dynamic("(array)")
        elif value is not None:
            text = self.words.word(value)
        self.gaps(node)
        plain = node.children[1].type == "="
        problem = variable_problem(self.text(name), text if plain else Dynamic(text), in_line=True)
        if problem is not None:
            raise self.refuse(node, problem)
        return self.text(name), text

    def assignment(self, node: Node) -> None:
        self.assigned(node)

    def declaration(self, node: Node) -> None:
        for child in node.children:
            if child.type == "variable_assignment":
                self.assigned(child)
            elif child.type == "variable_name":
                self.named(child)
            elif re.fullmatch(r"-[xrgp]+", self.text(child)):
                continue
            elif child.type not in ("export", "local", "readonly", "declare", "typeset"):
                raise self.refuse(child, "only plain names and assignments are judged here")
        self.gaps(node)

    def unset(self, node: Node) -> None:
        for child in node.children:
            if child.type == "variable_name":
                self.named(child, Dynamic("(nothing)"))
            elif child.type not in ("unset", "unsetenv"):
                raise self.refuse(child, "only plain names can be unset here")
        self.gaps(node)

    def named(self, node: Node, value: str = "/bin") -> None:
        problem = variable_problem(self.text(node), value, in_line=True)
        if problem is not None:
            raise self.refuse(node, problem)

    def loop(self, node: Node) -> None:
        for child in node.children:
            if child.type == "variable_name":
                self.named(child, Dynamic("(words)"))
            elif child.type in _WORDS:
                self.words.word(child)
            elif child.is_named:
                self.statement(child)
            elif child.type not in ("for", "in", ";", "\n"):
                raise self.refuse(child, f"{self.text(child)!r} is not judged here")
        self.gaps(node, lines=True)

    def case(self, node: Node) -> None:
        for child in node.children:
            if child.type in _WORDS:
                self.words.word(child)
            elif child.type == "case_item":
                self.case_item(child)
            elif child.type not in ("case", "in", "esac", ";", "\n"):
                raise self.refuse(child, f"{self.text(child)[:40]!r} is not understood here")
        self.gaps(node, lines=True)

    def case_item(self, node: Node) -> None:
        patterns = True
        for child in node.children:
            if child.type == ")":
                patterns = False
            elif patterns:
                self.pattern(child)
            elif child.is_named:
                self.statement(child)
            elif child.type not in _TOKENS:
                raise self.refuse(child, f"{self.text(child)!r} is not understood here")
        self.gaps(node, lines=True)

    def pattern(self, node: Node) -> None:
        if node.type in _WORDS:
            self.words.word(node)
        elif node.type not in ("|", "(") and not re.fullmatch(r"[^$`<>;&()\\\n'\"]*", self.text(node)):
            raise self.refuse(node, f"the pattern {self.text(node)[:40]!r} is not judged here")

    def test(self, node: Node) -> None:
        double = node.children[0].type == "[["
        if node.children[0].type not in ("[", "[["):
            raise self.refuse(node, "arithmetic is not judged here; use [ ] with -lt, -eq and the like")
        self._test_part(node, double)

    def _test_part(self, node: Node, double: bool) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse(node, "this is too deep; write a script and run that")
        operators = {self.text(c) for c in node.children if c.type == "test_operator"}
        if operators & {"-v", "-R"}:
            raise self.refuse(node, "-v and -R evaluate what they are given; use -n with a default: ${x:-}")
        arithmetic = double and operators & {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
        for child in node.children:
            if child.type in _WORDS:
                word = self.words.word(child)
                if arithmetic and not re.fullmatch(r"-?[0-9]+", word):
                    raise self.refuse(child, "[[ ]] evaluates what it compares as numbers; use [ ] instead")
            elif child.type in ("unary_expression", "binary_expression", "parenthesized_expression", "test_command"):
                self._test_part(child, double)
            elif child.type in ("extglob_pattern", "regex"):
                self.pattern(child)
            elif child.type not in (_TEST_TOKENS | _DOUBLE_TOKENS if double else _TEST_TOKENS):
                raise self.refuse(child, f"{self.text(child)!r} is not judged here")
        self.gaps(node)
        self.depth -= 1


_TEST_TOKENS = frozenset({"[", "]", "=", "==", "!=", "!", "-a", "-o", "test_operator"})
_DOUBLE_TOKENS = frozenset({"[[", "]]", "=~", "<", ">", "&&", "||", "(", ")"})  # in [ ] these end the command
