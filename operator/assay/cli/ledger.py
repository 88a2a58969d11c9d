"""`assay ledger`: freeze a task set, publish it, look at it."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.progress import Progress

from assay.adapters.ledger_store import ledger_key, publish_ledger
from assay.adapters.registry import Registry
from assay.adapters.s3 import AsyncS3Store, S3Settings
from assay.api.ledger_resource import Ledger
from assay.cli import ledger_gate
from assay.cli.ledger_build import build_ledger, gather_input
from assay.cli.ledger_io import (
    AsJson,
    Bucket,
    Endpoint,
    LedgerPath,
    Region,
    print_summary,
    read_ledger,
    storage_environment,
)
from assay.cli.ledger_summary import COLUMNS, ledger_summary, task_row
from assay.cli.output import InputError, console, expected_errors, explained, fail, print_json, print_table
from assay.core.ledger import parse_ledger, render_ledger
from assay.core.ledger_build import LedgerRefusedError
from assay.core.repository_gate import pin_path, render_pin

app = typer.Typer(
    name="ledger",
    help="Freeze a task set before the first model call, publish it, look at it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

for command in (ledger_gate.check, ledger_gate.verify, ledger_gate.diff):
    app.command()(command)
app.command("runner-image")(ledger_gate.runner_image)


@app.command()
def build(
    tasks: Annotated[
        Path,
        typer.Argument(
            metavar="TASKS_DIR",
            exists=True,
            help="Folder whose subfolders are tasks in Harbor's format, or a dataset.toml that lists them.",
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
    build_images: Annotated[
        bool,
        typer.Option(
            "--build-images",
            help="Build images that have only a Dockerfile (buildah or docker) and push them to --registry.",
        ),
    ] = False,
    oracle_runs: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            help="Proof of oracles: attempts.jsonl of a run, or the folder of a Harbor job, of the agents "
            "oracle (three times) and nop; repeat it for several.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Freeze the tasks of a folder into a ledger file, and write its pin beside it.

    The same input gives the same bytes, on another machine too. What cannot be frozen is refused, naming the
    task, the field and the fix, and no file is written.

    Example:

        assay ledger build examples/tasks --build-file examples/ledger-build.toml \\
            --registry http://10.0.0.1:5000 --archives archives -o ledger.jsonl
    """
    with expected_errors():
        given = gather_input(tasks, build_file, output, images=images, oracle_runs=oracle_runs or [])
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("Freezing tasks", total=len(given.folders))
            try:
                ledger = build_ledger(
                    given,
                    registry=Registry(registry) if registry else None,
                    archives=archives,
                    build_images=build_images,
                    on_task=lambda: progress.advance(bar),
                )
            except LedgerRefusedError as refused:
                progress.stop()
                fail(*(str(refusal) for refusal in refused.refusals), "no ledger was written")
                return
        content = render_ledger(ledger.header, ledger.tasks)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(content)
        parsed = parse_ledger(content)
        pin = Path(pin_path(str(output)))
        pin.write_text(render_pin(parsed.digest))
    print_summary({"file": str(output), "pin": str(pin), **ledger_summary(parsed)}, as_json)


@app.command()
def publish(
    ledger: LedgerPath,
    archives: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Folder of the task archives, from `build`.")
    ],
    bucket: Bucket,
    endpoint: Endpoint = None,
    region: Region = None,
    as_json: AsJson = False,
) -> None:
    """Upload the task archives and then the ledger to object storage.

    Keys are digests, so it may be interrupted and repeated. Credentials are read from AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY, or are this machine's cloud identity.

    Example:

        assay ledger publish ledger.jsonl --archives archives --bucket evidence --endpoint http://10.0.0.1:7070
    """
    with expected_errors():
        content, parsed = read_ledger(ledger)
        settings = S3Settings.from_env(storage_environment(endpoint, region))
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
    print_summary(
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
        _, parsed = read_ledger(ledger)
    if not tasks:
        print_summary(ledger_summary(parsed), as_json)
    elif as_json:
        print_json([task.model_dump(mode="json", by_alias=True, exclude_none=True) for task in parsed.tasks])
    else:
        print_table(COLUMNS, map(task_row, parsed.tasks))


@app.command()
def manifest(
    ledger: LedgerPath,
    name: Annotated[str, typer.Option(help="Name of the Ledger resource.")],
    bucket: Bucket,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the Ledger resource.")
    ] = "default",
    repository: Annotated[
        str | None, typer.Option(help="URL of the repository that holds harness and ledger.")
    ] = None,
    commit: Annotated[str | None, typer.Option(help="Commit of that repository, 40 digits.")] = None,
    runner_image: Annotated[
        str | None, typer.Option(help="The benchmark's own runner image by digest; see `runner-image`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the Ledger resource for a published ledger file, for `kubectl apply -f -`.

    Example:

        assay ledger manifest ledger.jsonl --name deepswe-six --bucket evidence -n evals | kubectl apply -f -
    """
    with expected_errors():
        _, parsed = read_ledger(ledger)
    document: dict[str, Any] = {
        "apiVersion": "assay.dev/v1alpha1",
        "kind": "Ledger",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "benchmark": {"name": parsed.header.benchmark, "version": parsed.header.version},
            "digest": parsed.digest,
            "source": {"s3": {"bucket": bucket, "key": ledger_key(parsed.digest)}},
        },
    }
    if repository or commit or runner_image:
        harness = {"repository": repository, "commit": commit, "runnerImage": runner_image}
        document["spec"]["harness"] = {name: value for name, value in harness.items() if value}
    with expected_errors():
        _check_resource(document)
    if as_json:
        print_json(document)
    else:
        typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def _check_resource(document: dict[str, Any]) -> None:
    """Say here what the API server would refuse. Raises InputError."""
    try:
        Ledger.parse(document)
    except ValidationError as error:
        raise InputError(explained("the Ledger resource", error)) from error
