"""The ledger file: from records to bytes and back, with every line held to its one canonical form."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from pydantic import ValidationError

from assay.api.base import Record
from assay.api.ledgerfile import UNKNOWN, AssertionSource, LedgerHeader, OracleKind, TaskLine
from assay.core.canonical import canonical_json, digest_of, digest_of_bytes

MAX_LEDGER_BYTES = 512 << 20
MAX_LINE_BYTES = 1 << 20


class LedgerFileError(Exception):
    """The bytes are not a valid ledger file; the message names the line and, where it can, the field."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line, self.problem = line, problem


@dataclass(frozen=True)
class LedgerFile:
    """A valid ledger file and the digest of its bytes."""

    header: LedgerHeader
    tasks: tuple[TaskLine, ...]
    digest: str

    @cached_property
    def by_id(self) -> dict[str, TaskLine]:
        """The tasks by their id, in the order of the file."""
        return {task.id: task for task in self.tasks}

    @property
    def clusters(self) -> int:
        """How many clusters the tasks fall into."""
        return len({task.cluster for task in self.tasks})

    @property
    def repositories(self) -> int:
        """How many repositories the tasks come from, as far as they are stated."""
        return len({normalised_repository(task.repository) for task in self.tasks if task.repository})

    @property
    def licences(self) -> list[tuple[str, int]]:
        """Licences and how many tasks state each, most frequent first."""
        return _tally(task.licence.value for task in self.tasks)

    @property
    def difficulties(self) -> list[tuple[str, int]]:
        """Difficulties and how many tasks state each, most frequent first."""
        return _tally(task.difficulty.value for task in self.tasks)

    @property
    def labelled_after_results(self) -> list[str]:
        """Ids of tasks with a licence or difficulty dated after the first published result, sorted."""
        first = self.header.first_result_date
        return [
            task.id
            for task in self.tasks
            if first and any(fact.date and fact.date > first for fact in (task.licence, task.difficulty))
        ]

    @property
    def without_proof(self) -> list[str]:
        """Ids of tasks whose oracle is neither proved nor accepted without proof: not Publishable."""
        return [
            task.id
            for task in self.tasks
            if not task.oracle or not (task.oracle.proof or task.oracle.accepted_without_proof)
        ]

    @property
    def unread_assertions(self) -> list[str]:
        """Ids of tasks without a readable failing assertion: the second cluster rule is blind to them."""
        return [
            task.id
            for task in self.tasks
            if not task.failing_assertions or task.failing_assertions.source is AssertionSource.UNREADABLE
        ]

    @property
    def unknowns(self) -> int:
        """How many facts are unknown."""
        return sum(len(unknown_facts(task)) for task in self.tasks)


def _tally(values: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))


def normalised_repository(address: str) -> str:
    """One form of the ways to write a repository's address: no scheme, no `.git`, lower case."""
    return address.lower().partition("://")[2].removesuffix("/").removesuffix(".git") or (
        address.lower().removesuffix("/").removesuffix(".git")
    )


def unknown_facts(task: TaskLine) -> list[str]:
    """Facts of a task that nobody stated, by the names that `allowUnknown` uses."""
    return [
        *(["licence"] if task.licence.value == UNKNOWN else []),
        *(["difficulty"] if task.difficulty.value == UNKNOWN else []),
        *(["baseCommit"] if task.base_commit is None else []),
        *(["oracle"] if task.oracle is None or task.oracle.kind is OracleKind.UNSTATED else []),
    ]


def line_digest(task: TaskLine) -> str:
    """Digest over the canonical JSON of a task line without its `lineDigest`."""
    document = task.model_dump(mode="json", by_alias=True, exclude_none=True)
    del document["lineDigest"]
    return digest_of(document)


def with_line_digest(task: TaskLine) -> TaskLine:
    """The task line with the `lineDigest` that it must have."""
    return task.model_copy(update={"line_digest": line_digest(task)})


def render_ledger(header: LedgerHeader, tasks: Iterable[TaskLine]) -> bytes:
    """The bytes of the ledger file: canonical JSON, tasks sorted by id, every line ended by a newline."""
    ordered = sorted(tasks, key=lambda task: task.id)
    return b"".join(canonical_json(record) + b"\n" for record in (header, *ordered))


def parse_ledger(content: bytes) -> LedgerFile:
    """The ledger of a file's bytes. Raises LedgerFileError with the number of the first line at fault.

    Nothing but the exact bytes that `render_ledger` would write is accepted: a file with the same meaning and
    other bytes has another digest, and would be another ledger.
    """
    if len(content) > MAX_LEDGER_BYTES:
        raise LedgerFileError(1, f"the file has {len(content)} bytes; at most {MAX_LEDGER_BYTES} are allowed")
    if not content.endswith(b"\n"):
        raise LedgerFileError(
            content.count(b"\n") + 1, "the file must end with a newline; it may be cut short"
        )
    lines = content[:-1].split(b"\n")
    header = _record(LedgerHeader, lines[0], 1)
    tasks = tuple(_task(line, number) for number, line in enumerate(lines[1:], start=2))
    _check_whole(header, tasks)
    return LedgerFile(header, tasks, digest_of_bytes(content))


def _record[R: Record](kind: type[R], line: bytes, number: int) -> R:
    if len(line) > MAX_LINE_BYTES:
        raise LedgerFileError(number, f"has {len(line)} bytes; at most {MAX_LINE_BYTES} are allowed")
    try:
        record = kind.model_validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise LedgerFileError(number, f"{field}: {first['msg']}" if field else first["msg"]) from error
    if canonical_json(record) != line:
        raise LedgerFileError(
            number,
            "is not in canonical form (RFC 8785: sorted keys, no spaces, defaults written out)",
        )
    return record


def _task(line: bytes, number: int) -> TaskLine:
    task = _record(TaskLine, line, number)
    # The line is canonical, and keys are sorted: without this one member it is what the digest is over.
    rest = line.replace(f'"lineDigest":"{task.line_digest}",'.encode(), b"", 1)
    if (right := digest_of_bytes(rest)) != task.line_digest:
        raise LedgerFileError(
            number, f"lineDigest of task {task.id} is {task.line_digest}, its line gives {right}"
        )
    return task


def _check_whole(header: LedgerHeader, tasks: Sequence[TaskLine]) -> None:
    if header.task_count != len(tasks):
        raise LedgerFileError(1, f"taskCount is {header.task_count}, but {len(tasks)} task lines follow")
    for number, (before, task) in enumerate(pairwise(tasks), start=3):
        if before.id == task.id:
            raise LedgerFileError(number, f"task {task.id} is there twice")
        if before.id > task.id:
            raise LedgerFileError(
                number, f"task {task.id} must stand before {before.id}: tasks are sorted by id"
            )
    for number, task in enumerate(tasks, start=2):
        if (mode := header.plan.verifier_mode) and task.verifier_mode.value != mode:
            raise LedgerFileError(
                number,
                f"verifierMode of task {task.id} is {task.verifier_mode.value}, the plan says {mode}",
            )
        for fact in unknown_facts(task):
            if fact not in header.allow_unknown:
                raise LedgerFileError(
                    number,
                    f"{fact} of task {task.id} is unknown, and the header's allowUnknown does not hold it",
                )
