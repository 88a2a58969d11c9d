"""`assay report attempt`: the page of one try, from its evidence."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from assay.adapters.try_evidence import EvidenceError, FolderPlace, S3Place, read_try
from assay.cli.cluster import Cluster, Context, Kubeconfig, Namespace, with_cluster
from assay.cli.output import InputError, expected_errors
from assay.cli.run_evidence import (
    Endpoint,
    LedgerName,
    Repetition,
    RunEvidence,
    TryNumber,
    chosen_try,
    find_attempt,
    open_store,
)
from assay.core.report_html.attempt_page import TryFiles, attempt_page


def attempt(
    place: Annotated[
        str,
        typer.Argument(
            metavar="RUN|ADDRESS|DIR",
            help="Name of an EvaluationRun, or the address of a try as the report says it (s3://…), or a "
            "folder with a copy of it.",
        ),
    ],
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="With RUN: id of the task.")] = None,
    variant: Annotated[str | None, typer.Argument(metavar="[VARIANT]", help="With RUN: the variant.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("attempt.html"),
    ledger: LedgerName = None,
    repetition: Repetition = 0,
    number: TryNumber = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    endpoint: Endpoint = None,
) -> None:
    """Write one attempt as a page: instruction, trajectory, what the verifier said, model calls, timings.

    Every file is checked against the manifest. What agent and task wrote is shown as text and cannot run.

    Examples:

        assay report attempt nightly count-requests terminus-2 -o attempt.html

        assay report attempt s3://evidence/runs/0d1c…/try-1/7be2…/ -o attempt.html
    """
    with expected_errors():
        if (task is None) != (variant is None):
            raise InputError("give a task and a variant, or the address of a try alone")
        if task is not None and variant is not None:

            async def of_run(cluster: Cluster) -> TryFiles:
                found = await cluster.run(place)
                async with open_store(endpoint) as store:
                    evidence = RunEvidence(store, found)
                    records = await evidence.records()
                    key = find_attempt([one.key for one in records], task, variant, ledger, repetition)
                    tries = sorted((one for one in records if one.key == key), key=lambda one: one.try_number)
                    record = chosen_try(tries, number)
                    where = S3Place(store, f"s3://{evidence.bucket}/{evidence.prefix_of(record)}")
                    return await _read(where, record.manifest_digest)

            files = with_cluster(of_run, namespace, context, kubeconfig)
        else:
            folder = FolderPlace(Path(place)) if Path(place).is_dir() else None
            files = asyncio.run(_read(folder) if folder else _at_address(place, endpoint))
        output.write_text(attempt_page(files))
    typer.echo(f"wrote {output}", err=True)


async def _at_address(address: str, endpoint: str | None) -> TryFiles:
    async with open_store(endpoint) as store:
        try:
            found = S3Place(store, address)
        except EvidenceError as error:
            raise InputError(str(error)) from error
        return await _read(found)


async def _read(place: FolderPlace | S3Place, digest: str = "") -> TryFiles:
    try:
        return await read_try(place, digest)
    except EvidenceError as error:
        raise InputError(str(error)) from error
