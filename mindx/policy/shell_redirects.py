"""Redirections and here-documents of a shell line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mindx.policy.shell_leaf import Leaf, ShellFault
from mindx.policy.shell_words import Words
from mindx.policy.words import Dynamic

if TYPE_CHECKING:
    from tree_sitter import Node

_FREE_DEVICES = re.compile(r"/dev/(null|zero|stdin|stdout|stderr|u?random|fd/[0-9])")


class Redirections:
    """The part of the walk that reads redirections; the walk itself gives what it declares here."""

    source: bytes
    leaves: list[Leaf]
    words: Words
    kinds: Mapping[str, Callable[[Node], None]]

    def refuse(self, node: Node, reason: str) -> ShellFault:
        """Return the fault at a node."""
        return ShellFault(reason, (node.start_point[0] + 1, node.start_point[1] + 1))

    def text(self, node: Node) -> str:
        """Return the source of a node."""
        return self.source[node.start_byte : node.end_byte].decode()

    def statement(self, node: Node) -> None:
        """Judge one statement, by its kind."""
        raise NotImplementedError

    def gaps(self, node: Node, *, lines: bool = False) -> None:
        """Refuse text that no token covers."""
        raise NotImplementedError

    def redirect(self, node: Node) -> list[str]:
        """Judge one redirection; return the text it feeds in, if it is a here-document or a here-string."""
        if node.type == "heredoc_redirect":
            return [self.heredoc(node)]
        operator, targets = "", []
        for child in node.children:
            if child.type == "file_descriptor":
                continue
            if child.is_named:
                targets.append(child)
            else:
                operator += child.type
        self.gaps(node)
        closes = operator in (">&-", "<&-")
        if len(targets) != (0 if closes else 1):
            raise self.refuse(node, "this redirection is not understood")
        if closes:
            return []
        target = self.words.word(targets[0])
        if operator == "<<<":
            return [target]
        if operator in (">&", "<&") and re.fullmatch(r"[0-9]-?|-", target):
            return []
        self.redirect_file(node, operator, target)
        return []

    def redirect_file(self, node: Node, operator: str, target: str) -> None:
        """Judge a redirection to or from a file."""
        if operator not in ("<", ">", ">>", ">|", "&>", "&>>", ">&"):
            raise self.refuse(node, f"the redirection {operator} is not judged here")
        place = node.start_point[0] + 1, node.start_point[1] + 1
        if _FREE_DEVICES.fullmatch(target):
            return
        start = target.prefix if isinstance(target, Dynamic) else target
        if start.startswith(("/dev", "/proc", "/sys")):
            raise self.refuse(node, f"{target[:40]!a} is no file that a line may redirect")
        if operator == "<":
            if isinstance(target, Dynamic):
                target = Dynamic(target, "./", target.many)
            self.leaves.append(Leaf(("cat", target), place, stands_for=f"reading from {target[:60]!a}"))
        elif isinstance(target, Dynamic):
            raise self.refuse(node, "the file that this writes is known only when it runs; write its name out")
        else:
            note = f"writing to {target[:60]!a}"
            self.leaves.append(Leaf(("tee", "--", target), place, stands_for=note, file=target))

    def heredoc(self, node: Node) -> str:
        """Judge a here-document, and what stands after it on its line; return its text."""
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        end = next((child for child in node.children if child.type == "heredoc_end"), None)
        if start is None or end is None:
            raise self.refuse(node, "this here-document is not understood")
        for child in node.children:
            if child.type in ("<<", "<<-", "heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor"):
                continue
            if child.type in ("file_redirect", "herestring_redirect"):
                self.redirect(child)
            elif child.type in self.kinds:
                self.statement(child)
            elif child.type not in ("&&", "||", "\n"):
                raise self.refuse(child, "this here-document is not understood")
        raw = self.text(start)
        word = raw.strip("'\"")
        if re.fullmatch(r"[A-Za-z0-9_]+|'[A-Za-z0-9_]+'|\"[A-Za-z0-9_]+\"", raw) is None:
            raise self.refuse(start, "use a plain word for the end of a here-document")
        text = self.heredoc_text(node, start, end, word)
        if raw != word or body is None:
            return text
        return self.heredoc_expanded(body, text)

    def heredoc_text(self, node: Node, start: Node, end: Node, word: str) -> str:
        """Return the lines up to the delimiter as bash finds them, and refuse when the grammar found another end."""
        begin = self.source.find(b"\n", start.end_byte) + 1
        tabs = any(child.type == "<<-" for child in node.children)
        position = begin
        while 0 < position < len(self.source):
            stop = self.source.find(b"\n", position)
            stop = len(self.source) if stop < 0 else stop
            content = self.source[position:stop]
            if (content.lstrip(b"\t") if tabs else content).decode() == word:
                if not position <= end.start_byte <= end.end_byte <= stop + 1:
                    break
                return self.source[begin:position].decode()
            position = stop + 1
        raise self.refuse(node, "the end of this here-document is not clear; put its word on a line of its own")

    def heredoc_expanded(self, body: Node, text: str) -> str:
        """Judge what an unquoted here-document expands; return its text, Dynamic if it has such parts."""
        rest, position = b"", body.start_byte
        for child in body.children:
            rest += self.source[position : child.start_byte]
            position = child.end_byte
            if child.type == "heredoc_content":
                rest += self.source[child.start_byte : child.end_byte]
            else:
                self.words.word(child)
        rest += self.source[position : body.end_byte]
        if re.search(rb"[$`\\]", rest):
            raise self.refuse(body, "this here-document expands more than is understood; quote its word: <<'EOF'")
        named = any(child.type != "heredoc_content" for child in body.children)
        return Dynamic(text) if named else text
