"""Where a try's task archive lies: beside the ledger that was published, not beside the evidence."""

from dataclasses import replace

import pytest

from assay.core.plan import make_plan
from assay.core.try_spec import make_try_spec
from tests.operator_kit import builders as make


@pytest.mark.parametrize("bucket", ["published", None])
def test_a_try_is_told_the_ledger_s_bucket(bucket: str | None) -> None:
    run = make.run_object()
    ledger = replace(make.run_ledger(tasks=[make.task()]), archive_bucket=bucket)
    plan = make_plan(run.spec, make.RUN_UID, [ledger], [make.run_variant()])
    (key,) = plan.attempts
    storage = make_try_spec(run, plan, key, 1, "job").storage
    assert storage.archive_bucket == bucket
    assert storage.bucket == "evidence"
