"""What every part of the operator process shares; made once at the start."""

from dataclasses import dataclass

from assay.adapters.job_table import JobTable
from assay.adapters.kube import KubeClient
from assay.adapters.lease import Lease
from assay.adapters.metrics import OperatorMetrics
from assay.adapters.s3 import AsyncS3Store
from assay.handlers.creation_rate import CreationRate
from assay.handlers.ledgers import LedgerLibrary
from assay.handlers.resources import ResourceCache
from assay.handlers.settings import OperatorSettings


@dataclass(frozen=True, slots=True)
class Context:
    """Clients, tables and settings."""

    settings: OperatorSettings
    client: KubeClient
    lease: Lease
    store: AsyncS3Store
    cache: ResourceCache
    table: JobTable
    library: LedgerLibrary
    metrics: OperatorMetrics
    creation_rate: CreationRate
