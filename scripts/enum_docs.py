"""Reads what the source says about the members of an enumeration: the string below each of them."""

import ast
import inspect
from enum import StrEnum
from pathlib import Path


class UndocumentedMemberError(Exception):
    """A member has no string below it."""


def member_docs(enumeration: type[StrEnum]) -> dict[str, str]:
    """Value and meaning of each member. Raises UndocumentedMemberError."""
    path = Path(inspect.getfile(enumeration))
    tree = ast.parse(path.read_text())
    body = next(
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == enumeration.__name__
    )
    found: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        text = _text(after)
        if text is None:
            raise UndocumentedMemberError(f"{path}: {enumeration.__name__}.{node.targets[0].id}")
        found[enumeration[node.targets[0].id].value] = " ".join(text.split())
    return found


def _text(node: ast.stmt | None) -> str | None:
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return node.value.value
    return None
