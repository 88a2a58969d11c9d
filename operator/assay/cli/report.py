"""`assay report`: a run's report in the terminal or as an HTML page, and the page of one attempt."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from assay.adapters.s3 import AsyncS3Store
from assay.adapters.score_files import read_report
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import Report as ReportPlace
from assay.cli.cluster import Cluster, Context, Kubeconfig, Namespace, with_cluster
from assay.cli.output import InputError, expected_errors
from assay.cli.report_attempt import attempt
from assay.cli.report_files import ATTEMPTS_FILE, REPORT_FILE, ReportFiles, write_page
from assay.cli.report_output import Format, print_report
from assay.cli.run_evidence import MAX_FILE_BYTES, Endpoint, open_store
from assay.core.canonical import digest_of_bytes


class _RunByDefault(TyperGroup):
    """`assay report NAME` is `assay report run NAME`, unless the name is a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="report",
    cls=_RunByDefault,
    help="Read the report of a run, or make HTML pages of it and of single attempts.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
app.command("attempt")(attempt)


@app.command("run")
def run(
    name: Annotated[
        str,
        typer.Argument(metavar="RUN|DIR", help="Name of an EvaluationRun, or a folder with its report.json."),
    ],
    html: Annotated[
        Path | None, typer.Option(help="Write the report as one self-contained HTML page to this file.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How the report is printed.")] = Format.TABLE,
    details: Annotated[
        bool, typer.Option("--details", help="Also pass@k, scores by label, both lines of error.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    endpoint: Endpoint = None,
) -> None:
    """Print the report of a run, or write it as a page.

    The page needs no network: it holds every figure, every try and where its evidence lies.

    Examples:

        assay report nightly

        assay report nightly --html report.html

        assay report downloads/nightly --html report.html
    """
    with expected_errors(), _files(name, namespace, context, kubeconfig, endpoint) as files:
        if html is None:
            print_report(read_report(files.report), form, details=details)
            return
        write_page(html, files)
    typer.echo(f"wrote {html}", err=True)


@contextmanager
def _files(
    name: str,
    namespace: str | None,
    context: str | None,
    kubeconfig: Path | None,
    endpoint: str | None,
) -> Iterator[ReportFiles]:
    folder = Path(name)
    if folder.is_dir():
        yield _in_folder(folder)
        return
    with tempfile.TemporaryDirectory(prefix="assay-report-") as made:

        async def download(cluster: Cluster) -> ReportFiles:
            found = await cluster.run(name)
            async with open_store(endpoint) as store:
                return await _download(store, found, Path(made))

        yield with_cluster(download, namespace, context, kubeconfig)


def _in_folder(folder: Path) -> ReportFiles:
    report, attempts = folder / REPORT_FILE, folder / ATTEMPTS_FILE
    if not report.is_file():
        raise InputError(f"{folder} has no {REPORT_FILE}: give the folder of a run's report")
    return ReportFiles(report, attempts if attempts.is_file() else None, str(report), str(attempts))


async def _download(store: AsyncS3Store, run: EvaluationRun, folder: Path) -> ReportFiles:
    place = run.status.report
    if place is None:
        raise InputError(
            f"EvaluationRun {run.metadata.name} has no report yet: `assay show {run.metadata.name}` says how "
            "far it is"
        )
    content = await store.get_bytes(place.bucket, place.key, MAX_FILE_BYTES)
    if digest_of_bytes(content) != place.digest:
        raise InputError(f"s3://{place.bucket}/{place.key} is not the report that the run's status names")
    key = place.key.removesuffix(REPORT_FILE) + ATTEMPTS_FILE
    report, attempts = folder / REPORT_FILE, folder / ATTEMPTS_FILE
    report.write_bytes(content)
    attempts.write_bytes(await store.get_bytes(place.bucket, key, MAX_FILE_BYTES))
    return ReportFiles(report, attempts, _address(place, place.key), _address(place, key))


def _address(place: ReportPlace, key: str) -> str:
    return f"s3://{place.bucket}/{key}"
