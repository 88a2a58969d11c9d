"""`assay journal`: read a run's journal as a third party does, and check that nobody changed it."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Annotated, Any

import typer

from assay.adapters.journal_store import LAST_EPOCH, JournalStore, list_ledger_runs
from assay.adapters.s3 import AsyncS3Store, S3Settings
from assay.api.journal import LedgerRun
from assay.cli.output import InputError, expected_errors, fail, print_json, print_table
from assay.core.journal import Journal
from assay.core.journal_check import ChainCheck, ChainReport
from assay.core.segments import JournalError, entry_of

app = typer.Typer(
    name="journal",
    help="Read the journal of a run, and check that nobody changed it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.*?)/?")

Address = Annotated[
    str,
    typer.Argument(
        metavar="JOURNAL", help="Address: s3://BUCKET/PREFIX/RUN-UID/journal/, as the run's storage says."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Endpoint = Annotated[
    str | None, typer.Option(help="URL of an S3-compatible store; absent = ASSAY_S3_ENDPOINT, else AWS.")
]


@app.command()
def verify(
    journal: Address,
    head: Annotated[
        str | None,
        typer.Option(help="Digest of a segment that you have from elsewhere, e.g. from a report: sha256:…"),
    ] = None,
    endpoint: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Check every segment, and that each follows the one that it names.

    Finds every edit, gap and reorder before `--head`. Without a head it cannot tell whether the last segments
    were removed or changed, or the whole journal written anew. The exit status is 1 if there is a problem.

    Example:

        assay journal verify s3://evidence/runs/0d1c…/journal/ --head sha256:9f2b…
    """
    if head is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", head):
        raise typer.BadParameter(
            f"{head!r} is no digest: give sha256: and 64 hexadecimal digits", param_hint="--head"
        )
    with expected_errors():
        report = _with_store(endpoint, lambda store: _verify(_journal(store, journal), head))
    document = _summary(report, head)
    if as_json:
        print_json(document)
    else:
        for key, value in document.items():
            if key != "problems":
                typer.echo(f"{key}\t{value}")
    if report.problems:
        fail(*report.problems)


@app.command()
def show(journal: Address, endpoint: Endpoint = None, as_json: AsJson = False) -> None:
    """Print every recorded try, one a line, in the order in which they were recorded.

    Example:

        assay journal show s3://evidence/runs/0d1c…/journal/
    """
    with expected_errors():
        found: Journal = _with_store(endpoint, lambda store: _load(_journal(store, journal)))
    entries = [entry_of(record) for record in found.records.values()]
    if as_json:
        print_json([entry.model_dump(mode="json", exclude_defaults=True) for entry in entries])
        return
    print_table(
        (
            "LEDGER",
            "TASK",
            "VARIANT",
            "REPETITION",
            "TRY",
            "OUTCOME",
            "REWARD",
            "ENDED",
            "MANIFEST",
            "REASON",
        ),
        (
            (
                entry.ledger,
                entry.task,
                entry.variant,
                entry.repetition,
                entry.try_number,
                entry.outcome.value,
                entry.reward,
                entry.ended_at.isoformat(timespec="seconds"),
                entry.manifest_digest or None,
                " ".join(entry.reason.split()),
            )
            for entry in entries
        ),
    )


@app.command()
def runs(
    bucket: Annotated[str, typer.Argument(metavar="BUCKET", help="Bucket of the runs' evidence.")],
    ledger: Annotated[str, typer.Option(help="Digest of the ledger: sha256:…")],
    endpoint: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """List every run that used a ledger, from its first Job on, runs that were deleted too.

    Example:

        assay journal runs evidence --ledger sha256:9f2b…
    """
    with expected_errors():
        found: list[LedgerRun] = _with_store(endpoint, lambda store: list_ledger_runs(store, bucket, ledger))
    if as_json:
        print_json([one.model_dump(mode="json", exclude_none=True) for one in found])
        return
    print_table(
        ("STARTED", "NAMESPACE", "RUN", "UID", "VARIANTS", "JOURNAL"),
        (
            (
                one.started_at.isoformat(timespec="seconds"),
                one.namespace,
                one.run_name,
                one.run_uid,
                ",".join(variant.name for variant in one.variants),
                f"s3://{bucket}/{one.journal}",
            )
            for one in found
        ),
    )


def _with_store[T](endpoint: str | None, work: Callable[[AsyncS3Store], Awaitable[T]]) -> T:
    environment = {**os.environ, **({"ASSAY_S3_ENDPOINT": endpoint} if endpoint else {})}
    settings = S3Settings.from_env(environment)

    async def run() -> T:
        store = AsyncS3Store(settings)
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except JournalError as error:
        raise InputError(f"{error}; `assay journal verify` checks all of it") from error


def _journal(store: AsyncS3Store, address: str) -> JournalStore:
    found = _ADDRESS.fullmatch(address)
    path = PurePosixPath(found[2]) if found else PurePosixPath()
    if found is None or path.name != "journal" or len(path.parts) < 2:
        raise InputError(f"{address!r} is no address of a journal: give s3://BUCKET/PREFIX/RUN-UID/journal/")
    return JournalStore(store, found[1], f"{path}/", path.parts[-2])


async def _verify(journal: JournalStore, head: str | None) -> ChainReport:
    check = ChainCheck()
    async for segment in journal.segments(await journal.names()):
        check.add(segment)
    return check.report(head)


async def _load(journal: JournalStore) -> Journal:
    return await journal.load(LAST_EPOCH)


def _summary(report: ChainReport, head: str | None) -> dict[str, Any]:
    opening = report.opening.opening if report.opening else None
    return {
        "head": report.head.digest if report.head else None,
        "checkedAgainst": head,
        "segments": report.segments,
        "tries": report.entries,
        "operators": len(report.epochs),
        "outside": len(report.strays),
        "run": f"{opening.namespace}/{opening.run_name}" if opening else None,
        "ledgers": {one.name: one.digest for one in opening.ledgers} if opening else {},
        "problems": list(report.problems),
    }
