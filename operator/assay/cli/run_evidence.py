"""What a run left in S3, for the commands that tell of single attempts."""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

import typer

from assay.adapters.journal_store import LAST_EPOCH, JournalStore
from assay.adapters.s3 import AsyncS3Store, NoSuchKey, S3Settings
from assay.api.evaluation_run import EvaluationRun
from assay.api.evidence import Manifest
from assay.cli.output import InputError
from assay.core.canonical import digest_of_bytes
from assay.core.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, read_manifest
from assay.core.names import journal_prefix, try_prefix
from assay.core.record import AttemptKey, ManifestFound, TryRecord
from assay.core.try_spec import identity_of, storage_of

MAX_FILE_BYTES = 512 << 20
"""The runner keeps no larger file."""
_NAMES_IN_A_MESSAGE = 5

Task = Annotated[
    str, typer.Argument(metavar="TASK", help="Id of the task; its last part is enough where it is unique.")
]
Variant = Annotated[str, typer.Argument(metavar="VARIANT", help="Name of the AgentVariant.")]
LedgerName = Annotated[
    str | None, typer.Option("--ledger", help="Ledger, where the run has several with this task.")
]
Repetition = Annotated[int, typer.Option("--repetition", "-r", min=0, help="Repetition, from 0.")]
TryNumber = Annotated[
    int | None, typer.Option("--try", min=1, help="Number of the try; absent = the last one.")
]
Endpoint = Annotated[
    str | None,
    typer.Option(help="URL of the S3-compatible store; absent = ASSAY_S3_ENDPOINT, else AWS."),
]


@asynccontextmanager
async def open_store(endpoint: str | None) -> AsyncIterator[AsyncS3Store]:
    """The store that the environment names, with the endpoint of the command line."""
    named = {"ASSAY_S3_ENDPOINT": endpoint} if endpoint else {}
    store = AsyncS3Store(S3Settings.from_env({**os.environ, **named}))
    try:
        yield store
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The journal and the evidence of one run. Every method raises StorageErrors."""

    store: AsyncS3Store
    run: EvaluationRun

    @property
    def bucket(self) -> str:
        """Bucket of everything that the run left."""
        return self.run.spec.storage.s3.bucket

    async def records(self) -> Sequence[TryRecord]:
        """Every recorded try, in the order of the journal. Raises JournalError."""
        uid = self.run.metadata.uid
        prefix = journal_prefix(storage_of(self.run), uid)
        journal = await JournalStore(self.store, self.bucket, prefix, uid).load(LAST_EPOCH)
        return list(journal.records.values())

    def prefix_of(self, record: TryRecord) -> str:
        """Key prefix of a try's evidence."""
        identity = identity_of(self.run, record.key, record.try_number, record.job_name)
        return try_prefix(storage_of(self.run), identity, record.pod_uid)

    async def manifest(self, record: TryRecord) -> Manifest:
        """The try's manifest, as it was recorded. Raises InputError where there is none or it was changed."""
        key = self.prefix_of(record) + MANIFEST_NAME
        if not record.manifest_digest:
            raise InputError(
                f"try {record.try_number} left no manifest ({record.outcome.value}: {record.reason}); "
                f"parts of its evidence may lie below s3://{self.bucket}/{self.prefix_of(record)}"
            )
        content = await self.store.get_bytes(self.bucket, key, MAX_MANIFEST_BYTES)
        found = read_manifest(content)
        if not isinstance(found, ManifestFound) or found.digest != record.manifest_digest:
            raise InputError(f"s3://{self.bucket}/{key} is no longer the manifest that the journal names")
        return found.manifest

    async def file(self, record: TryRecord, path: str) -> bytes | None:
        """A file of the try, checked against its manifest; None where the try left none of that name."""
        manifest = await self.manifest(record)
        listed = next((one for one in manifest.files if one.path == path), None)
        if listed is None:
            return None
        key = self.prefix_of(record) + path
        try:
            content = await self.store.get_bytes(self.bucket, key, MAX_FILE_BYTES)
        except NoSuchKey as error:
            raise InputError(f"{error}: the manifest lists it, so somebody removed it") from error
        if digest_of_bytes(content) != listed.sha256:
            raise InputError(f"s3://{self.bucket}/{key} is not what its manifest lists: somebody changed it")
        return content


def find_attempt(
    keys: Sequence[AttemptKey], task: str, variant: str, ledger: str | None, repetition: int
) -> AttemptKey:
    """The attempt that the user means. Raises InputError that names what there is."""
    tasks = sorted({key.task for key in keys})
    meant = [one for one in tasks if task in (one, one.rsplit("/", 1)[-1])]
    exact = [one for one in meant if one == task] or meant
    if len(exact) != 1:
        raise InputError(_no_task(task, exact, tasks))
    found = [key for key in keys if key.task == exact[0]]
    for name, wanted, values in (
        ("variant", variant, {key.variant: None for key in found}),
        ("--ledger", ledger, {key.ledger: None for key in found}),
        ("--repetition", repetition, {key.repetition: None for key in found}),
    ):
        if wanted is None and len(values) > 1:
            raise InputError(
                f"task {exact[0]} is in several ledgers: name one with --ledger: {_some(values)}"
            )
        if wanted is not None and wanted not in values:
            raise InputError(f"no try of task {exact[0]} has {name} {wanted}; there are: {_some(values)}")
    return next(
        key
        for key in found
        if key.variant == variant and key.repetition == repetition and ledger in (None, key.ledger)
    )


def chosen_try(records: Sequence[TryRecord], number: int | None) -> TryRecord:
    """The try of that number, else the last one. Raises InputError."""
    if number is None:
        return records[-1]
    for record in records:
        if record.try_number == number:
            return record
    raise InputError(f"there is no recorded try {number}; recorded: {_some(r.try_number for r in records)}")


def _no_task(task: str, meant: Sequence[str], tasks: Sequence[str]) -> str:
    if meant:
        return f"task {task} is not unique: {_some(meant)}"
    if not tasks:
        return "no try of this run has been recorded yet, and none is live"
    close = get_close_matches(task, tasks, _NAMES_IN_A_MESSAGE, 0.4) or tasks
    return f"no try of a task {task} yet; tasks with tries: {_some(close)}"


def _some(values: Iterable[object]) -> str:
    found = [str(value) for value in values]
    more = f" and {len(found) - _NAMES_IN_A_MESSAGE} more" if len(found) > _NAMES_IN_A_MESSAGE else ""
    return ", ".join(found[:_NAMES_IN_A_MESSAGE]) + more
