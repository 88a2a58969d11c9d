"""`assay ledger check|verify|diff|runner-image`: the gate in a repository's CI, the third party's tools."""

import asyncio
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from assay.adapters.git import GitRepository
from assay.adapters.s3 import S3Settings, S3Store
from assay.cli.ledger_checks import Check, archive_checks, ledger_checks, repository_checks
from assay.cli.ledger_freeze import freeze_check
from assay.cli.ledger_io import AsJson, Endpoint, LedgerPath, Region, read_ledger, storage_environment
from assay.cli.output import REFUSED, InputError, console, expected_errors, print_json
from assay.cli.repository_gate import Gate, published_reports
from assay.core.ledger_diff import changed_tasks, header_changes
from assay.core.repository_gate import render_pin
from assay.core.runner_image import containerfile

Repository = Annotated[
    Path | None,
    typer.Option("--repo", exists=True, file_okay=False, help="A git repository, or a clone of it."),
]


def check(
    ledger: Annotated[
        str, typer.Argument(metavar="LEDGER", help="The ledger file's path in the repository.")
    ] = "ledger.jsonl",
    repo: Repository = None,
    commit: Annotated[str, typer.Option(help="Commit to judge.")] = "HEAD",
    base: Annotated[
        str | None,
        typer.Option(help="Base branch, whose rankings/ counts, e.g. origin/main; absent = the commit."),
    ] = None,
    reports_bucket: Annotated[
        str | None, typer.Option(help="Bucket whose published report.json files count as rankings too.")
    ] = None,
    reports_prefix: Annotated[str, typer.Option(help="Prefix of the reports in that bucket.")] = "",
    endpoint: Endpoint = None,
    region: Region = None,
    as_json: AsJson = False,
) -> None:
    """Judge a commit: pin, harness and tasks must be the ledger's, and no ranked version may change.

    Meant for the CI of the repository that holds harness and ledger; exit status 1 is red. Rankings are read
    from the base branch, so a pull request that deletes one does not get past it.

    Example:

        assay ledger check ledger.jsonl --base origin/main
    """
    with expected_errors():
        gate = Gate(GitRepository(repo or Path.cwd()), ledger)
        judged = gate.repository.commit(commit)
        before = gate.repository.commit(base) if base else judged
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("Reading tasks", total=None)
            found, findings = gate.commit_findings(judged, lambda: progress.advance(bar))
        reports = []
        if reports_bucket and found:
            settings = S3Settings.from_env(storage_environment(endpoint, region))
            with closing(S3Store(settings)) as store:
                reports = list(
                    published_reports(store, reports_bucket, reports_prefix, found.header.benchmark)
                )
        findings += gate.ranking_findings(found, before, reports)
    if as_json:
        print_json(
            {
                "commit": judged,
                "base": before,
                "digest": found and found.digest,
                "version": found and found.header.version,
                "findings": [asdict(one) for one in findings],
            }
        )
    else:
        for one in findings:
            console.print(f"error: {one}", markup=False, style="red")
        if found and not findings:
            typer.echo(
                f"{ledger} of {judged[:12]}: {found.header.benchmark} {found.header.version}, "
                f"{found.digest}, {len(found.tasks)} tasks: pin, harness and tasks are the frozen ones"
            )
    if findings:
        raise typer.Exit(REFUSED)


def verify(
    ledger: Annotated[
        Path | None, typer.Argument(metavar="LEDGER", exists=True, dir_okay=False, help="A ledger file.")
    ] = None,
    digest: Annotated[str | None, typer.Option(help="Digest that it must have, e.g. a report's.")] = None,
    repo: Repository = None,
    commit: Annotated[str, typer.Option(help="Commit of --repo.")] = "HEAD",
    path: Annotated[str, typer.Option(help="The ledger file's path in --repo.")] = "ledger.jsonl",
    bucket: Annotated[
        str | None, typer.Option(help="Bucket whose copy of the ledger, and of every archive, is read whole.")
    ] = None,
    archives: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Folder of task archives to be read.")
    ] = None,
    run_prefix: Annotated[
        str | None,
        typer.Option(
            "--run",
            help="Prefix of a run's evidence in --bucket: was the ledger frozen before the first model call?",
        ),
    ] = None,
    endpoint: Endpoint = None,
    region: Region = None,
    as_json: AsJson = False,
) -> None:
    """Verify a ledger as a third party: the file, a repository at a commit, the copy in S3, every archive.

    Nothing is believed: digests are computed from bytes, the harness tree by git, clusters from their rules.

    Example:

        assay ledger verify ledger.jsonl --repo . --commit v1.0 --bucket evidence
    """
    with expected_errors():
        checks: list[Check] = []
        content = ledger.read_bytes() if ledger else None
        if repo is not None:
            gate = Gate(GitRepository(repo), path)
            found, more = repository_checks(gate, commit)
            checks += more
            if content is not None:
                checks.append(
                    Check("repository", found == content, f"{path} at {commit} has the bytes of {ledger}")
                )
            content = content or found
        if content is None:
            raise InputError("name a ledger file, or a repository that holds one: --repo")
        if run_prefix and not bucket:
            raise InputError("--run needs --bucket: the evidence of a run lies there")
        parsed, more = ledger_checks(content, digest)
        checks += more
        if parsed and (bucket or archives):
            with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
                bar = progress.add_task("Reading archives", total=len(parsed.tasks))
                settings = S3Settings.from_env(storage_environment(endpoint, region)) if bucket else None
                checks += asyncio.run(
                    archive_checks(parsed, content, settings, bucket, archives, lambda: progress.advance(bar))
                )
            if run_prefix and bucket and settings:
                with closing(S3Store(settings)) as store:
                    checks.append(freeze_check(store, bucket, run_prefix, parsed.digest))
    _print_checks(checks, as_json)


def _print_checks(checks: list[Check], as_json: bool) -> None:
    if as_json:
        print_json({"verified": all(one.holds for one in checks), "checks": [asdict(one) for one in checks]})
    else:
        for one in checks:
            typer.echo(f"{'ok' if one.holds else 'WRONG'}\t{one.name}\t{one.words}")
    if not all(one.holds for one in checks):
        raise typer.Exit(REFUSED)


def diff(
    before: Annotated[
        Path, typer.Argument(metavar="A", exists=True, dir_okay=False, help="The former ledger.")
    ],
    after: Annotated[Path, typer.Argument(metavar="B", exists=True, dir_okay=False, help="The other one.")],
    as_json: AsJson = False,
) -> None:
    """Explain two ledgers in words: the header, then task by task, field by field.

    Exit status 0 says that they were compared, also where they differ.

    Example:

        assay ledger diff ledger-1.0.jsonl ledger-1.1.jsonl
    """
    with expected_errors():
        (_, one), (_, other) = read_ledger(before), read_ledger(after)
    header, tasks = header_changes(one, other), list(changed_tasks(one, other))
    if as_json:
        document: dict[str, Any] = {
            "before": one.digest,
            "after": other.digest,
            "header": [asdict(change) for change in header],
            "tasks": [asdict(change) for change in tasks],
        }
        print_json(document)
        return
    if one.digest == other.digest:
        typer.echo(f"the same ledger: {one.digest}")
        return
    typer.echo(f"{before} is {one.digest}\n{after} is {other.digest}")
    for change in header:
        typer.echo(f"header: {change}")
    for task in tasks:
        typer.echo(
            f"{task.task}: {task.kind}"
            + ("" if task.fields else f" in {after if task.kind == 'added' else before}")
        )
        for field in task.fields:
            typer.echo(f"  {field}")
    counts = {kind: sum(task.kind == kind for task in tasks) for kind in ("added", "removed", "edited")}
    typer.echo(", ".join(f"{count} {kind}" for kind, count in counts.items()))


def runner_image(
    ledger: LedgerPath,
    base: Annotated[str, typer.Option("--from", help="Assay's runner image, by digest.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder that takes Containerfile and ledger.pin.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write the Containerfile of a benchmark's runner image: Assay's runner with the ledger's pin in it.

    A runner of that image refuses every other ledger, whatever a resource in the cluster says.

    Example:

        assay ledger runner-image ledger.jsonl --from assay.test/runner:0.1.0@sha256:0c1d… -o runner
        buildah build -t registry.example/bench-runner:1.0 runner
    """
    with expected_errors():
        _, parsed = read_ledger(ledger)
        text = containerfile(base, parsed)
        output.mkdir(parents=True, exist_ok=True)
        files = {"Containerfile": text, "ledger.pin": render_pin(parsed.digest)}
        for name, content in files.items():
            (output / name).write_text(content)
    written = [str(output / name) for name in files]
    if as_json:
        print_json({"digest": parsed.digest, "files": written})
    else:
        typer.echo("\n".join(written))
