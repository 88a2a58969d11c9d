"""What every part of a try works with."""

from dataclasses import dataclass

from assay.runner.evidence import Evidence
from assay.runner.gateway_client import GatewayClient
from assay.runner.model_gateway.call_log import CallLog
from assay.runner.scrub import Scrubber
from assay.runner.settings import Pod
from assay.runner.siblings import Siblings
from assay.runner.state import RunnerState


@dataclass(frozen=True, slots=True)
class TryContext:
    """The pod, its containers, and the ways in which a try leaves something."""

    pod: Pod
    siblings: Siblings
    state: RunnerState
    scrubber: Scrubber
    client: GatewayClient
    evidence: Evidence
    calls: CallLog
