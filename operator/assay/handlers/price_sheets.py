"""The price sheet that a run names: read, checked against its digest, kept for the run's time."""

from assay.adapters.kube import KubeClient, KubeError, KubeRefused
from assay.adapters.ledger_source import config_map_bytes
from assay.adapters.s3 import AsyncS3Store, NoSuchBucket, NoSuchKey, StorageError
from assay.api.evaluation_run import EvaluationRun, PriceSheetReference
from assay.api.evaluation_run_status import RunReason
from assay.core.prices import MAX_SHEET_BYTES, Prices, PriceSheetError, parse_price_sheet
from assay.core.resolve import Problem


class RunPrices:
    """The sheet of one run. What was verified once is not read again: a digest names one sheet."""

    def __init__(self, client: KubeClient, store: AsyncS3Store, run: EvaluationRun) -> None:
        self._client, self._store = client, store
        self._namespace, self._named = run.metadata.namespace, run.spec.price_sheet
        self._prices: Prices | None = None

    @property
    def prices(self) -> Prices | None:
        """The verified sheet; None where the run names none, or it could not be read yet."""
        return self._prices

    async def check(self) -> Problem | None:
        """Read the sheet unless that is done; why the run must wait for it."""
        if self._named is None or self._prices is not None:
            return None
        try:
            self._prices = parse_price_sheet(await self._bytes(self._named), self._named.digest)
        except (NoSuchKey, NoSuchBucket, KubeRefused) as error:
            return _problem(f"{error}: put the sheet there, or correct spec.priceSheet in a new run")
        except PriceSheetError as error:
            return _problem(str(error))
        except (StorageError, KubeError) as error:
            return _problem(f"{error}; it is asked for again")
        return None

    async def _bytes(self, named: PriceSheetReference) -> bytes:
        source = named.source
        if source.s3 is not None:
            return await self._store.get_bytes(source.s3.bucket, source.s3.key, MAX_SHEET_BYTES)
        assert source.config_map is not None  # the API server admits exactly one source
        place = source.config_map
        return await config_map_bytes(self._client, self._namespace, place.name, place.key)


def _problem(words: str) -> Problem:
    return Problem(RunReason.PRICE_SHEET_UNUSABLE, f"price sheet: {words}")
