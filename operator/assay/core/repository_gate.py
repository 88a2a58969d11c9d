"""The gate in a repository's CI: what a commit must hold, and what a ranking forbids to change."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from assay.core.ledger import LedgerFile, LedgerFileError, parse_ledger
from assay.core.ledger_diff import changed_tasks, header_changes

PIN_SUFFIX = ".pin"
RANKINGS = "rankings"


def pin_path(ledger: str) -> str:
    """Path of the pin beside a ledger file: `ledger.jsonl` has `ledger.pin`."""
    return f"{ledger.removesuffix('.jsonl')}{PIN_SUFFIX}"


def render_pin(digest: str) -> str:
    """The text of a pin file."""
    return f"{digest}\n"


@dataclass(frozen=True, slots=True)
class Finding:
    """Why the gate is red: what, and how to make it right."""

    check: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.check}: {self.problem}. Fix: {self.fix}"


def pin_findings(
    path: str, content: bytes | None, pin: bytes | None
) -> tuple[LedgerFile | None, list[Finding]]:
    """The ledger of a commit, and what is wrong with it and its pin."""
    if content is None:
        return None, [Finding("ledger", f"{path} is not in the commit", "commit the ledger file")]
    try:
        ledger = parse_ledger(content)
    except LedgerFileError as error:
        return None, [Finding("ledger", f"{path}: {error}", "build it anew with `assay ledger build`")]
    where = pin_path(path)
    if pin is None:
        return ledger, [
            Finding("pin", f"{where} is not in the commit", f"commit it: it holds {ledger.digest}")
        ]
    pinned = pin.decode(errors="replace").strip()
    if pinned != ledger.digest:
        problem = f"{where} pins {pinned}, the ledger's digest is {ledger.digest}"
        return ledger, [
            Finding(
                "pin",
                problem,
                "build the ledger with `assay ledger build`, which writes both, and commit both",
            )
        ]
    return ledger, []


def tree_finding(ledger: LedgerFile, tree: str | None) -> Finding | None:
    """Whether the harness at the commit is the one that the header names; `tree` is the commit's."""
    harness = ledger.header.harness
    if harness is None:
        return Finding(
            "harness",
            "the ledger's header names no harness, so nothing binds the code to it",
            'write paths = ["…"] in [harness] of the build file, and build the ledger anew',
        )
    if tree != harness.tree:
        return Finding(
            "harness",
            f"the git tree of {', '.join(harness.paths)} is {tree}, the ledger's header says {harness.tree}",
            "the harness changed after the freeze: build a ledger of a new version, or undo the change",
        )
    return None


def task_findings(ledger: LedgerFile, digests: Mapping[str, str]) -> Iterator[Finding]:
    """Tasks of a commit, by id, whose archive is not the ledger's."""
    for task, digest in sorted(digests.items()):
        line = ledger.by_id.get(task)
        if line is not None and line.archive_digest != digest:
            problem = (
                f"task {task} is not the frozen one: its archive is {digest}, "
                f"the ledger says {line.archive_digest}"
            )
            yield Finding("task", problem, "undo the change, or build a ledger of a new version")
    for task in sorted(ledger.by_id.keys() - digests.keys()):
        yield Finding("task", f"task {task} of the ledger is not in the commit", "restore its folder")


@dataclass(frozen=True, slots=True)
class RankedVersion:
    """A version for which results were published, where that is on record, and of which ledger."""

    version: str
    place: str
    digest: str | None = None


def rankings_in(files: Iterable[tuple[str, bytes]], benchmark: str) -> Iterator[RankedVersion]:
    """Ranked versions by the files below `rankings/` of a base branch.

    `rankings/<version>/…` ranks that version whatever the file holds. A JSON file anywhere below `rankings/`
    ranks the ledgers of this benchmark that it lists as an Assay report does.
    """
    for path, content in files:
        parts = path.split("/")
        if len(parts) > 2:
            yield RankedVersion(parts[1], path)
        if path.endswith(".json"):
            yield from ranked_by_report(content, path, benchmark)


def ranked_by_report(content: bytes, place: str, benchmark: str) -> Iterator[RankedVersion]:
    """Ranked versions by one published report; a file that is no report ranks nothing."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return
    listed = document.get("ledgers") if isinstance(document, dict) else None
    for ledger in listed if isinstance(listed, list) else []:
        if isinstance(ledger, dict) and ledger.get("benchmark") == benchmark and ledger.get("version"):
            digest = ledger.get("digest")
            yield RankedVersion(str(ledger["version"]), place, digest if isinstance(digest, str) else None)


def ranking_findings(
    ledger: LedgerFile, ranked: Iterable[RankedVersion], ranked_ledger: LedgerFile | None
) -> Iterator[Finding]:
    """What a ranking forbids: any change of the ledger under the same version.

    `ranked_ledger` is the ledger of that version as the base branch (or its history) holds it.
    """
    version = ledger.header.version
    of_version = [one for one in ranked if one.version == version]
    if not of_version:
        return
    place = of_version[0].place
    fix = "give the benchmark a new version in the build file, or undo the change"
    if ranked_ledger is not None and ranked_ledger.digest != ledger.digest:
        for change in changed_tasks(ranked_ledger, ledger):
            problem = f"task {change.task} was {change.kind} under version {version}, which {place} ranks"
            yield Finding("ranking", problem, fix)
        for words in header_changes(ranked_ledger, ledger):
            yield Finding(
                "ranking", f"the header changed under version {version}, which {place} ranks: {words}", fix
            )
    if ranked_ledger is None and not any(one.digest for one in of_version):
        problem = (
            f"{place} ranks version {version}, and no earlier ledger of it is in the base branch's history"
        )
        yield Finding("ranking", problem, "fetch the whole history, or give the benchmark a new version")
    for one in of_version:
        if one.digest and one.digest != ledger.digest:
            problem = (
                f"{one.place} ranks ledger {one.digest} of version {version}, this one is {ledger.digest}"
            )
            yield Finding("ranking", problem, fix)
