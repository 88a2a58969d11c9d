"""`assay ledger`: freeze a task set, publish it, look at it."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.progress import Progress

from assay.adapters.ledger_store import ledger_key, publish_ledger
from assay.adapters.registry import Registry
from assay.adapters.s3 import AsyncS3Store, S3Settings
from assay.cli.ledger_build import build_ledger, read_build_file, read_image_map, task_folders
from assay.cli.output import InputError, console, expected_errors, fail, print_json, print_table
from assay.core.ledger import LedgerFile, LedgerFileError, parse_ledger, render_ledger
from assay.core.ledger_build import LedgerRefusedError

app = typer.Typer(
    name="ledger",
    help="Freeze a task set before the first model call, publish it, look at it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

LedgerPath = Annotated[
    Path, typer.Argument(metavar="LEDGER", exists=True, dir_okay=False, help="A ledger file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Bucket = Annotated[str, typer.Option(help="Bucket for ledger and task archives.")]


@app.command()
def build(
    tasks: Annotated[
        Path,
        typer.Argument(
            metavar="TASKS_DIR",
            exists=True,
            file_okay=False,
            help="Folder whose subfolders are tasks in Harbor's format.",
        ),
    ],
    build_file: Annotated[
        Path,
        typer.Option(
            "--build-file",
            exists=True,
            dir_okay=False,
            help="TOML with what the tasks do not say themselves.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the ledger is written.")] = Path(
        "ledger.jsonl"
    ),
    images: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help='JSON from published image names to digests: {"name:tag": "name:tag@sha256:…"}.',
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(help="Registry that tags are looked up in: host:port, or http://host:port."),
    ] = None,
    archives: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder that takes the task archives, for `publish`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Freeze the tasks of a folder into a ledger file.

    The same input gives the same bytes, on another machine too. What cannot be frozen is refused, naming the
    task, the field and the fix, and no file is written.

    Example:

        assay ledger build examples/tasks --build-file examples/ledger-build.toml \\
            --registry http://10.0.0.1:5000 --archives archives -o ledger.jsonl
    """
    with expected_errors():
        stated = read_build_file(build_file)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            folders = task_folders(tasks, stated.include)
            bar = progress.add_task("Freezing tasks", total=len(folders))
            try:
                ledger = build_ledger(
                    folders,
                    stated,
                    image_map=read_image_map(images) if images else {},
                    registry=Registry(registry) if registry else None,
                    archives=archives,
                    on_task=lambda: progress.advance(bar),
                )
            except LedgerRefusedError as refused:
                progress.stop()
                fail(*(str(refusal) for refusal in refused.refusals), "no ledger was written")
                return
        content = render_ledger(ledger.header, ledger.tasks)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(content)
    _print_summary({"file": str(output), **_summary(parse_ledger(content))}, as_json)


@app.command()
def publish(
    ledger: LedgerPath,
    archives: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Folder of the task archives, from `build`.")
    ],
    bucket: Bucket,
    endpoint: Annotated[
        str | None, typer.Option(help="URL of an S3-compatible store; absent = ASSAY_S3_ENDPOINT, else AWS.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="Region; absent = ASSAY_S3_REGION.")] = None,
    as_json: AsJson = False,
) -> None:
    """Upload the task archives and then the ledger to object storage.

    Keys are digests, so it may be interrupted and repeated. Credentials are read from AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY, or are this machine's cloud identity.

    Example:

        assay ledger publish ledger.jsonl --archives archives --bucket evidence --endpoint http://10.0.0.1:7070
    """
    with expected_errors():
        content, parsed = _read(ledger)
        settings = S3Settings.from_env(_environment(endpoint, region))
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("Uploading archives", total=len({t.archive_digest for t in parsed.tasks}))

            async def upload() -> Any:
                store = AsyncS3Store(settings)
                try:
                    return await publish_ledger(
                        store, bucket, content, parsed, archives, lambda: progress.advance(bar)
                    )
                finally:
                    await store.close()

            done = asyncio.run(upload())
    _print_summary(
        {
            "digest": parsed.digest,
            "bucket": bucket,
            "key": done.key,
            "uploaded": done.uploaded,
            "alreadyThere": done.already_there,
        },
        as_json,
    )


@app.command()
def show(
    ledger: LedgerPath,
    tasks: Annotated[bool, typer.Option("--tasks", help="List the tasks, one a line.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a ledger file and show what it holds.

    Example:

        assay ledger show ledger.jsonl --tasks
    """
    with expected_errors():
        _, parsed = _read(ledger)
    if not tasks:
        _print_summary(_summary(parsed), as_json)
    elif as_json:
        print_json([task.model_dump(mode="json", by_alias=True, exclude_none=True) for task in parsed.tasks])
    else:
        print_table(
            ("TASK", "CLUSTER", "LICENCE", "DIFFICULTY", "VERIFIER", "NETWORK", "AGENT SECONDS", "IMAGE"),
            (
                (
                    task.id,
                    task.cluster,
                    task.licence.value,
                    task.difficulty.value,
                    task.verifier_mode.value,
                    task.network.value,
                    task.timeouts.agent_seconds,
                    task.images.environment,
                )
                for task in parsed.tasks
            ),
        )


@app.command()
def manifest(
    ledger: LedgerPath,
    name: Annotated[str, typer.Option(help="Name of the Ledger resource.")],
    bucket: Bucket,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the Ledger resource.")
    ] = "default",
) -> None:
    """Print the Ledger resource for a published ledger file, for `kubectl apply -f -`.

    Example:

        assay ledger manifest ledger.jsonl --name deepswe-six --bucket evidence -n evals | kubectl apply -f -
    """
    with expected_errors():
        _, parsed = _read(ledger)
    document = {
        "apiVersion": "assay.dev/v1alpha1",
        "kind": "Ledger",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "benchmark": {"name": parsed.header.benchmark, "version": parsed.header.version},
            "digest": parsed.digest,
            "source": {"s3": {"bucket": bucket, "key": ledger_key(parsed.digest)}},
        },
    }
    typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def _read(path: Path) -> tuple[bytes, LedgerFile]:
    content = path.read_bytes()
    try:
        return content, parse_ledger(content)
    except LedgerFileError as error:
        raise InputError(f"{path}: {error}") from error


def _environment(endpoint: str | None, region: str | None) -> dict[str, str]:
    """The process's environment with what the command line says laid over it."""
    given = {"ASSAY_S3_ENDPOINT": endpoint, "ASSAY_S3_REGION": region}
    return {**os.environ, **{name: value for name, value in given.items() if value}}


def _summary(ledger: LedgerFile) -> dict[str, Any]:
    return {
        "benchmark": ledger.header.benchmark,
        "version": ledger.header.version,
        "digest": ledger.digest,
        "tasks": len(ledger.tasks),
        "clusters": ledger.clusters,
        "repositories": ledger.repositories,
        "licences": dict(ledger.licences),
        "difficulties": dict(ledger.difficulties),
        "unknowns": ledger.unknowns,
        "archiveBytes": sum({t.archive_digest: t.archive_bytes for t in ledger.tasks}.values()),
    }


def _print_summary(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    for key, value in document.items():
        counts = value.items() if isinstance(value, dict) else None
        shown = value if counts is None else ", ".join(f"{name} {count}" for name, count in counts)
        typer.echo(f"{key}\t{shown}")
