"""Words of a shell line: what text a node stands for, as far as that is known before it runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from mindx.policy.words import Dynamic

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 60
_GLOB = re.compile(r"[*?\[]")
_BRACE = re.compile(r"\{[^{}]*?(,|\.\.)")
# ${x}, ${#x}, ${x:-word}, ${x%pattern}, ${x/a/b}, ${x^^}, ${a[@]}, ${a[0]}: nothing that evaluates or looks up names.
_EXPANSION = re.compile(
    r"\$\{#?(?P<name>[A-Za-z_]\w*|[0-9@*#?])(\[[@*0-9]\])?(?:(?::?[-=+?]|%%?|##?|//?)(?P<rest>[^`]*)|\^\^?|,,?)?\}",
    re.ASCII | re.DOTALL,
)
_ARITHMETIC = re.compile(r"\$\(\([0-9\s+*/%()<>=!&|^~?:-]*\)\)")


class Words:
    """Reads words. `nested` judges the statements inside a substitution; `refuse` makes the error for a node."""

    def __init__(self, source: bytes, nested: Callable[[Node], None], refuse: Callable[[Node, str], Exception]) -> None:
        self.source = source
        self.nested = nested
        self.refuse = refuse
        self.depth = 0

    def text(self, node: Node) -> str:
        """Return the source of a node."""
        return self.source[node.start_byte : node.end_byte].decode()

    def word(self, node: Node) -> str:
        """Return a word's text; Dynamic when only the shell will know it. Raises what `refuse` makes."""
        reader = {
            "word": self._plain,
            "number": self._number,
            "raw_string": self._raw,
            "ansi_c_string": self._ansi,
            "string": self._string,
            "concatenation": self._concatenation,
            "simple_expansion": self._variable,
            "expansion": self._expansion,
            "command_substitution": self._substitution,
            "process_substitution": self._process,
            "arithmetic_expansion": self._arithmetic,
            "brace_expression": self._brace,
        }.get(node.type)
        if reader is None:
            raise self.refuse(node, f"{self.text(node)[:40]!r} is not judged here")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse(node, "this is too deep; write a script and run that")
        text = reader(node)
        self.depth -= 1
        return text

    def _plain(self, node: Node) -> str:
        text = self.text(node)
        if re.search(r"[\n`$'\"<>|&;()]", re.sub(r"\\.", "", text, flags=re.DOTALL)):
            raise self.refuse(node, f"{text[:40]!r} is not understood")
        bare = re.sub(r"\\(.)", "", text, flags=re.DOTALL)
        plain = re.sub(r"\\(.)", lambda found: "" if found.group(1) == "\n" else found.group(1), text, flags=re.DOTALL)
        if text.startswith("~"):
            return Dynamic(text, "~")
        if _GLOB.search(bare) or ("{" in bare and re.search(r",|\.\.", bare)):
            cut = re.search(r"[*?\[{}\\]", text)
            return Dynamic(text, text[: cut.start()] if cut else "", many=True)
        if re.search(r"[:=]~", bare):
            return Dynamic(text, re.split(r"[:=]~", text)[0])
        return plain

    def _number(self, node: Node) -> str:
        if re.fullmatch(r"-?\w+(#\w+)?", self.text(node), re.ASCII) is None:
            raise self.refuse(node, f"{self.text(node)[:40]!r} is not understood")
        return self.text(node)

    def _raw(self, node: Node) -> str:
        return self.text(node)[1:-1]

    def _ansi(self, node: Node) -> str:
        text = self.text(node)[2:-1]
        return Dynamic(self.text(node)) if "\\" in text else text

    def _string(self, node: Node) -> str:
        position, prefix, many, known = node.start_byte + 1, "", False, True
        for child in node.children:
            if child.type in ('"', "string_content", "$"):
                continue
            between = self._unescaped(node, self.source[position : child.start_byte].decode())
            prefix += between if known else ""
            known, many = False, many or re.search(r"\$\{?\w*\[?@", self.text(child)) is not None
            self.word(child)
            position = child.end_byte
        last = self._unescaped(node, self.source[position : node.end_byte - 1].decode())
        return prefix + last if known else Dynamic(self.text(node), prefix, many)

    def _unescaped(self, node: Node, text: str) -> str:
        if re.fullmatch(r"(?:[^$`\"\\]|\\.|\$(?=[\s/.,:;%\"')]|$))*", text, re.DOTALL) is None:
            raise self.refuse(node, f"{text[:40]!r} is not understood")
        return re.sub(r"\\([$`\"\\\n])", lambda found: found.group(1).strip("\n"), text)

    def _concatenation(self, node: Node) -> str:
        words, position = [], node.start_byte
        for child in node.children:
            if child.start_byte != position or not child.is_named:
                raise self.refuse(node, f"{self.text(node)[:40]!r} is not understood")
            words.append(self.word(child))
            position = child.end_byte
        source = self.text(node)
        unquoted = "".join(self.text(child) for child in node.children if child.type == "word")
        if not any(isinstance(word, Dynamic) for word in words) and not _BRACE.search(unquoted):
            return "".join(words)
        prefix = ""
        for word in words:
            prefix += word.prefix if isinstance(word, Dynamic) else word.split("{")[0]
            if isinstance(word, Dynamic) or "{" in word:
                break
        many = any(word.many for word in words if isinstance(word, Dynamic)) or bool(_BRACE.search(unquoted))
        return Dynamic(source, prefix, many)

    def _variable(self, node: Node) -> str:
        if re.fullmatch(r"\$([A-Za-z_]\w*|[0-9@*#?!$_-])", self.text(node), re.ASCII) is None:
            raise self.refuse(node, f"{self.text(node)[:40]!r} is not understood")
        return Dynamic(self.text(node), many=True)

    def _expansion(self, node: Node) -> str:
        text = self.text(node)
        found = _EXPANSION.fullmatch(text)
        if found is None:
            raise self.refuse(node, f"the expansion {text[:40]!r} is not judged here")
        rest = found.group("rest") or ""
        for child in node.named_children:
            if (
                child.type
                in (
                    "command_substitution",
                    "process_substitution",
                    "simple_expansion",
                    "expansion",
                    "string",
                )
                or child.type == "concatenation"
            ):
                self.word(child)
                rest = rest.replace(self.text(child), "", 1)
        if re.search(r"[$<>`]", rest):
            raise self.refuse(node, f"the expansion {text[:40]!r} is not judged here")
        return Dynamic(text, many=True)

    def _substitution(self, node: Node) -> str:
        if self.text(node).startswith("$(("):
            return self._arithmetic(node)
        self.nested(node)
        return Dynamic(self.text(node), many=True)

    def _process(self, node: Node) -> str:
        self.nested(node)
        return Dynamic(self.text(node), "/dev/fd/")

    def _arithmetic(self, node: Node) -> str:
        if _ARITHMETIC.fullmatch(self.text(node)) is None:
            raise self.refuse(
                node, "bash runs code in arithmetic with variables, so it is not judged; use expr or python3"
            )
        return Dynamic(self.text(node))

    def _brace(self, node: Node) -> str:
        return Dynamic(self.text(node), many=True)
