"""`assay trajectory`: what an agent did, step by step, readable in a terminal."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from assay.cli.cluster import AsJson, Cluster, Context, Kubeconfig, Namespace, with_cluster
from assay.cli.output import InputError, expected_errors
from assay.cli.run_evidence import (
    Endpoint,
    LedgerName,
    Repetition,
    RunEvidence,
    Task,
    TryNumber,
    Variant,
    chosen_try,
    find_attempt,
    open_store,
)
from assay.cli.run_views import RunName
from assay.core.terminal_text import one_line, printable, shortened
from assay.core.trajectory import Step, Trajectory, TrajectoryError, read_trajectory

_TRAJECTORY = "trajectory.json"
_STYLES = {"agent": "bold green", "user": "bold blue", "system": "bold magenta"}


def trajectory(
    run: RunName,
    task: Task,
    variant: Variant,
    number: TryNumber = None,
    limit: Annotated[
        int, typer.Option(min=100, help="Characters of a message or an observation that are shown.")
    ] = 2000,
    ledger: LedgerName = None,
    repetition: Repetition = 0,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    endpoint: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Print an agent's trajectory: what it was told, said, did and saw. `--json` prints the stored file.

    Checked against the manifest that the journal names. Control characters are shown as \\\\uXXXX.

    Example:

        kubectl assay trajectory nightly count-requests terminus-2 | less
    """

    async def read(cluster: Cluster) -> list[tuple[str, bytes]]:
        found = await cluster.run(run)
        async with open_store(endpoint) as store:
            evidence = RunEvidence(store, found)
            records = await evidence.records()
            key = find_attempt([one.key for one in records], task, variant, ledger, repetition)
            tries = sorted((one for one in records if one.key == key), key=lambda one: one.try_number)
            # A try that only verifies has no agent.
            record = chosen_try([one for one in tries if number or not one.verifies] or tries, number)
            manifest = await evidence.manifest(record)
            paths = sorted(one.path for one in manifest.files if one.path.endswith(f"/{_TRAJECTORY}"))
            if not paths:
                raise InputError(
                    f"try {record.try_number} of {key.task} left no trajectory: agent {key.variant} writes "
                    "none, or it ended before it began"
                )
            return [(path, await evidence.file(record, path) or b"") for path in paths]

    files = with_cluster(read, namespace, context, kubeconfig)
    if as_json:
        sys.stdout.write("\n".join(content.decode(errors="replace") for _, content in files) + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    with expected_errors():
        for path, content in files:
            try:
                _print(console, path, read_trajectory(content), limit)
            except TrajectoryError as error:
                raise InputError(f"{path}: {error}") from error


def _print(console: Console, path: str, found: Trajectory, limit: int) -> None:
    words = " ".join(filter(None, (found.agent, found.version, found.model)))
    console.print(printable(f"{path}: {len(found.steps)} steps of {words}"), markup=False, style="bold")
    for step in found.steps:
        _print_step(console, step, limit)


def _print_step(console: Console, step: Step, limit: int) -> None:
    tokens = [
        f"{count:,} {name}"
        for count, name in ((step.input_tokens, "in"), (step.output_tokens, "out"))
        if count is not None
    ]
    head = "  ".join(filter(None, (f"[{step.number}] {step.source}", step.timestamp, step.model, *tokens)))
    console.print()
    console.print(one_line(head, 200), markup=False, style=_STYLES.get(step.source, "bold"))
    if step.reasoning:
        console.print(shortened(step.reasoning, limit), markup=False, style="italic dim")
    if step.message:
        console.print(shortened(step.message, limit), markup=False)
    for call in step.calls:
        console.print(
            f"→ {one_line(call.name, 100)} {shortened(call.arguments, limit)}", markup=False, style="cyan"
        )
    for seen in step.observations:
        console.print(shortened(seen, limit), markup=False, style="dim")
