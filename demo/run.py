"""The demonstration, step by step. Every step can be repeated; the run itself is new each time."""

import tempfile
from pathlib import Path
from typing import Any

import yaml

from assay.api.evaluation_run import EvaluationRun
from assay.cli.report_output import Format, print_report
from assay.core import run_story as story
from demo.commands import apply
from demo.errors import DemoError
from demo.evidence import report_of
from demo.install import ROOT, RUN_NAMESPACE, install, served_namespaces
from demo.kube import LEDGERS, VARIANTS, Kube, WaitTimeout, has_condition
from demo.materials import publish_ledger
from demo.model_server import start_model_server
from demo.runs import follow, named, next_name, unfinished
from demo.screen import Screen
from demo.target import Target, choose

EXAMPLES = ROOT / "examples"
MANIFESTS = EXAMPLES / "manifests"

Manifest = dict[str, Any]

_VERIFY_SECONDS = 120


def demonstrate(minutes: float) -> bool:
    """Runs the whole demonstration; whether its run is Complete. Raises DemoError."""
    screen = Screen()
    target = choose()
    manifests = read_manifests(MANIFESTS)
    with screen.step("Assay installed with its Helm chart"):
        install(target, sorted({RUN_NAMESPACE, *served_namespaces()}))
    with screen.step("scripted model server running"):
        start_model_server(target)
    with Kube(target.kubeconfig) as kube:
        with screen.step("ledger of the six example tasks frozen, published and verified"):
            ledger = publish_examples(target, kube)
        with screen.step("agent variants accepted"):
            accept_variants(kube, manifests)
        apply([document for document in manifests if document["kind"] == "ConfigMap"])
        name = unfinished(kube, RUN_NAMESPACE, ledger)
        if name is None:
            name = next_name(kube, RUN_NAMESPACE)
            apply([named(_one(manifests, "EvaluationRun"), name, ledger, run_spec(target))])
            screen.say(f"\nEvaluationRun {name} applied. It goes on without this command; to look at it:")
        else:
            screen.say(f"\nEvaluationRun {name} still goes on; following it. To look at it yourself:")
        screen.say(f"  kubectl -n {RUN_NAMESPACE} get evaluationrun {name} --watch\n")
        finished = follow(kube, RUN_NAMESPACE, name, screen, minutes * 60)
    show_result(screen, target, finished)
    return story.completed(finished)


def read_manifests(folder: Path) -> list[Manifest]:
    """All documents of the folder's YAML files, in the order of the files' names."""
    found = [
        document
        for path in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    if not found:
        raise DemoError(f"{folder} holds no manifests", "use a complete checkout")
    return [document for document in found if document]


def _one(manifests: list[Manifest], kind: str) -> Manifest:
    found = [document for document in manifests if document["kind"] == kind]
    if len(found) != 1:
        raise DemoError(f"{MANIFESTS} holds {len(found)} documents of kind {kind}; one is expected")
    return found[0]


def publish_examples(target: Target, kube: Kube) -> str:
    """Name of the verified Ledger of the example tasks; other tasks have another digest, hence name."""
    with tempfile.TemporaryDirectory(prefix="assay-demo-") as scratch:
        manifest = publish_ledger(
            target.storage,
            EXAMPLES / "tasks",
            EXAMPLES / "ledger-build.toml",
            Path(scratch),
            name="examples",
            namespace=RUN_NAMESPACE,
        )
    name = f"examples-{manifest['spec']['digest'].removeprefix('sha256:')[:8]}"
    manifest["metadata"]["name"] = name
    apply([manifest])
    _await(kube, LEDGERS, "ledger", name, "Verified")
    return name


def accept_variants(kube: Kube, manifests: list[Manifest]) -> None:
    """Applies the agent variants and awaits that the operator understands them."""
    variants = [document for document in manifests if document["kind"] == "AgentVariant"]
    names = ", ".join(document["metadata"]["name"] for document in variants)
    apply(variants, advice=f"a variant never changes: kubectl -n {RUN_NAMESPACE} delete agentvariant {names}")
    for document in variants:
        _await(kube, VARIANTS, "agentvariant", document["metadata"]["name"], "Accepted")


def _await(kube: Kube, kind: Any, word: str, name: str, condition: str) -> None:
    try:
        kube.wait(
            kind, RUN_NAMESPACE, name, has_condition(condition), what=condition, seconds=_VERIFY_SECONDS
        )
    except WaitTimeout as error:
        raise DemoError(str(error), f"kubectl -n {RUN_NAMESPACE} describe {word} {name}") from None


def run_spec(target: Target) -> Manifest:
    """What of the run depends on the cluster: the bucket, and where its images are."""
    spec: Manifest = {"storage": {"s3": {"bucket": target.storage.bucket, "prefix": "runs/"}}}
    if rewrites := target.image_rewrites():
        spec["placement"] = {"imageRewrites": rewrites}
    return spec


def show_result(screen: Screen, target: Target, finished: EvaluationRun) -> None:
    """The run's report, and where the evidence lies."""
    status = finished.status
    screen.say()
    report = report_of(target, finished)
    if report is not None:
        print_report(report, Format.TABLE)
    else:
        screen.say(f"{story.publishable(finished)}\n")
        screen.table(story.vector_table(status.vector), f"{finished.metadata.name}: {story.doing(finished)}")
    for line in sorted({story.provenance(row, status) for row in status.vector}):
        screen.say(f"  {line}")
    if failed := story.failures(finished):
        screen.say("\nTries without a score:")
        screen.lines(failed)
    place = f"s3://{target.storage.bucket}/{status.evidence_prefix or ''}"
    screen.say(f"\nThe evidence of every try is below {place}")
    screen.lines(evidence_commands(target, finished))


def evidence_commands(target: Target, finished: EvaluationRun) -> list[str]:
    """Commands that show the evidence and the story of the run."""
    name, bucket = finished.metadata.name, target.storage.bucket
    shell = "" if target.registry else "make cluster-shell, then: "
    return [
        f"{shell}python -m demo evidence {name}             # every try: outcome, reward, files",
        f"{shell}python -m demo evidence {name} --fetch DIR # copies s3://{bucket}/… to a folder",
        f"{shell}kubectl -n {RUN_NAMESPACE} describe evaluationrun {name}",
    ]
