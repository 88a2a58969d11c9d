"""What differs between two ledgers, task by task and field by field, in words."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from assay.api.base import Record
from assay.api.ledgerfile import TaskLine
from assay.core.ledger import LedgerFile

_WORDS = {
    "archiveDigest": "the files of the task",
    "archiveBytes": "the size of its archive",
    "harborDigest": "Harbor's digest",
    "oracle.digest": "the files that decide the reward",
    "images.environment": "the agent's image",
    "images.verifier": "the verifier's image",
    "licence": "the licence",
    "difficulty": "the difficulty",
    "baseCommit": "the base commit",
    "cluster": "the cluster",
    "clusterReason": "why it is in its cluster",
    "timeouts": "the timeouts",
    "resources": "the resources",
    "failingAssertions": "the failing assertions",
}
_LEFT_OUT = frozenset({"lineDigest"})
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field with its former and present value; None where there was or is none."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        names = (self.field, self.field.partition(".")[0])
        words = next((_WORDS[name] for name in names if name in _WORDS), None)
        named = f"{words} ({self.field})" if words else self.field
        if self.before is None:
            return f"{named} is now {_shown(self.after)}"
        if self.after is None:
            return f"{named} is gone, it was {_shown(self.before)}"
        return f"{named} went from {_shown(self.before)} to {_shown(self.after)}"


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task that differs."""

    task: str
    kind: Literal["added", "removed", "edited"]
    fields: list[FieldChange] = field(default_factory=list)


def changed_tasks(before: LedgerFile, after: LedgerFile) -> Iterator[TaskChange]:
    """Tasks that were added, removed or edited, sorted by id."""
    for task in sorted(before.by_id.keys() | after.by_id.keys()):
        one, other = before.by_id.get(task), after.by_id.get(task)
        if one is None:
            yield TaskChange(task, "added")
        elif other is None:
            yield TaskChange(task, "removed")
        elif one.line_digest != other.line_digest:
            yield TaskChange(task, "edited", list(_changes(one, other)))


def header_changes(before: LedgerFile, after: LedgerFile) -> list[FieldChange]:
    """Fields of the header that differ, the plan's among them."""
    return list(_changes(before.header, after.header))


def _changes(before: Record, after: Record) -> Iterator[FieldChange]:
    one, other = _flat(before), _flat(after)
    for name in sorted(one.keys() | other.keys()):
        if name not in _LEFT_OUT and one.get(name) != other.get(name):
            yield FieldChange(name, one.get(name), other.get(name))


def _flat(record: Record | TaskLine) -> dict[str, Any]:
    document = record.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dict(_walk(document, ""))


def _walk(value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _walk(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} values" if len(value) > 5 else f"[{', '.join(map(str, value))}]"
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
