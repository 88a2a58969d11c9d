"""The outcome table (design §6): what follows from the class of a try. Data, not code.

Two rules shape it. What is not recognised is not counted. And nothing that the agent can cause earns a fresh
sample: such a class is retained, with its verdict or with 0.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType

from assay.api.ledgerfile import RetryLimits
from assay.api.outcome import OutcomeClass
from assay.core.canonical import digest_of


class Disposition(StrEnum):
    """What becomes of an attempt after a try of a class."""

    RETAIN = "Retain"
    """The try is the attempt's result; it has a verdict."""
    RETAIN_ZERO = "RetainZero"
    """The try is the attempt's result: its verdict if it has one, else 0."""
    REVERIFY = "Reverify"
    """The artefacts exist and their verdict failed: judge them again, never run the agent again."""
    RERUN = "Rerun"
    """A new try, up to the class's limit."""
    WAIT = "Wait"
    """A new try later: the delay doubles with each try; up to the class's limit."""
    STOP_RUN = "StopRun"
    """No further try of any attempt until a person has mended the cause."""


class Limit(StrEnum):
    """The retry limit that a class draws on; the value is the field of `RetryLimits`."""

    INFRASTRUCTURE = "infrastructure"
    DISRUPTION = "disruption"
    VERIFICATION = "verification"
    REFUSAL = "refusal"


class Exhausted(StrEnum):
    """What an attempt is when the limit is used up."""

    INVALID = "Invalid"
    """No result: coverage falls; never a silent 0."""
    ZERO = "Zero"
    """A result of 0: the agent or its model did this, again and again."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table. `fix` tells a person what to do where a person has to do something."""

    disposition: Disposition
    meaning: str
    limit: Limit | None = None
    exhausted: Exhausted = Exhausted.INVALID
    first_delay_seconds: int = 0
    infrastructure: bool = False
    refusal: bool = False
    fix: str = ""
    """Of a class that is tried again: what to look at when the first attempts all end so."""
    counted: bool = True
    """Whether a try of this class draws on its limit; where it does not, a person caused it."""

    @property
    def retained(self) -> bool:
        """Whether a try of this class is the attempt's result at once."""
        return self.disposition in (Disposition.RETAIN, Disposition.RETAIN_ZERO)

    def allowed(self, limits: RetryLimits) -> int:
        """How many further tries `limits` allow for this class; 0 means none."""
        return 0 if self.limit is None else int(getattr(limits, self.limit.value))


def _rerun(meaning: str, fix: str) -> Rule:
    return Rule(Disposition.RERUN, meaning, Limit.INFRASTRUCTURE, infrastructure=True, fix=fix)


def _reverify(meaning: str, fix: str) -> Rule:
    return Rule(Disposition.REVERIFY, meaning, Limit.VERIFICATION, infrastructure=True, fix=fix)


def _agent(meaning: str) -> Rule:
    return Rule(Disposition.RETAIN_ZERO, meaning)


def _stop(meaning: str, fix: str) -> Rule:
    return Rule(Disposition.STOP_RUN, meaning, infrastructure=True, fix=fix)


TABLE: Mapping[OutcomeClass, Rule] = MappingProxyType(
    {
        OutcomeClass.GRADED: Rule(
            Disposition.RETAIN,
            "the verifier gave a finite reward, also after an agent timeout or a non-zero exit of the agent",
        ),
        OutcomeClass.TAMPERED: Rule(
            Disposition.RETAIN_ZERO,
            "the agent wrote where the verdict is read; the reward is the verifier's alone",
        ),
        OutcomeClass.REFUSED_FALLBACK: Rule(
            Disposition.RETAIN_ZERO, "a model refused and another model finished", refusal=True
        ),
        OutcomeClass.AGENT_OOM: _agent("a process of the agent used more memory than its container may"),
        OutcomeClass.AGENT_DISK_EXCEEDED: _agent("the agent wrote more to disk than its container may"),
        OutcomeClass.CONTEXT_EXCEEDED: _agent("the agent filled its model's context"),
        OutcomeClass.BUDGET_EXHAUSTED: _agent("the agent used up the attempt's budget"),
        OutcomeClass.REFUSED_BLOCKED: Rule(
            Disposition.RERUN,
            "a refusal or a block by the provider ended the attempt",
            Limit.REFUSAL,
            exhausted=Exhausted.ZERO,
            refusal=True,
        ),
        OutcomeClass.DISRUPTED: Rule(
            Disposition.RERUN,
            "the cluster took the pod away: preemption, a lost node, eviction, deletion",
            Limit.DISRUPTION,
            infrastructure=True,
            fix="find out what takes the pods away: preemption, taints, an autoscaler, a clean-up job",
        ),
        OutcomeClass.STOPPED: Rule(
            Disposition.RERUN,
            "a person suspended the run with suspendPolicy Stop",
            Limit.DISRUPTION,
            counted=False,
        ),
        OutcomeClass.VERIFIER_TIMEOUT: _reverify(
            "the verifier did not end in its time", "run the agent oracle on these tasks first"
        ),
        OutcomeClass.VERIFIER_CRASH: _reverify(
            "the verifier ended without a verdict", "run the agent oracle on these tasks first"
        ),
        OutcomeClass.JUDGE_INCOMPLETE: _reverify(
            "a judge left questions unanswered", "check the judge's model and its Secret"
        ),
        OutcomeClass.INFRA_START: _rerun(
            "the pod could not start", "check images, imagePullSecrets and the room on the nodes"
        ),
        OutcomeClass.SETUP_FAILED: _rerun(
            "the environment or the agent could not be set up",
            "read the trial's log in the evidence; the setup must not need what a pod cannot reach",
        ),
        OutcomeClass.RUNNER_RESTARTED: _rerun(
            "the runner's container restarted in the middle of the try", "check the nodes' memory"
        ),
        OutcomeClass.RESULT_MISSING: _rerun(
            "the pod ended and S3 has no manifest of it",
            "check that pods reach the gateway and the gateway its bucket",
        ),
        OutcomeClass.ARTIFACTS_PARTIAL: _rerun(
            "the evidence is not complete", "check that the gateway reaches its bucket, and uploadSeconds"
        ),
        OutcomeClass.INVALID_RESULT: _rerun(
            "the result is no finite number from 0 to 1, or not this try's",
            "run the agent oracle on these tasks first",
        ),
        OutcomeClass.AGENT_NEVER_CALLED: _rerun(
            "a variant with a model made no model call", "check the variant's agent arguments and endpoint"
        ),
        OutcomeClass.POD_MUTATED: _rerun(
            "the pod is not the one that was rendered", "exempt the namespace from webhooks that change pods"
        ),
        OutcomeClass.UNRECOGNISED: _rerun(
            "nothing in the table explains the end of the pod", "look at the pod's events and the evidence"
        ),
        OutcomeClass.PROVIDER_RATE_LIMITED: Rule(
            Disposition.WAIT,
            "the model's provider limited the rate or was overloaded",
            Limit.INFRASTRUCTURE,
            first_delay_seconds=60,
            infrastructure=True,
        ),
        OutcomeClass.ISOLATION_ABSENT: _stop(
            "the pod reached an address that it must not reach",
            "install a CNI that enforces NetworkPolicy, or the chart's policies in this namespace",
        ),
        OutcomeClass.PROVIDER_AUTH: _stop(
            "the model's provider, or the Secret with its key, refused the call",
            "check the Secret that the variant's secretRef names",
        ),
        OutcomeClass.PROVIDER_FUNDS: _stop(
            "the model's provider says that the account has no funds", "add funds to the provider's account"
        ),
        OutcomeClass.LEDGER_MISMATCH: _stop(
            "the task archive or the ledger is not the frozen one", "publish the ledger again, unchanged"
        ),
    }
)
"""One rule for each outcome class; a test asserts that none is missing."""

MAX_DELAY_SECONDS = 15 * 60


def _decides(rule: Rule) -> dict[str, str | int | bool]:
    """The rule without its words."""
    return {name: value for name, value in asdict(rule).items() if name not in ("meaning", "fix") and value}


def table_digest(table: Mapping[OutcomeClass, Rule]) -> str:
    """Digest of all that decides in a table; its words do not."""
    rules = {outcome.value: _decides(rule) for outcome, rule in table.items()}
    return digest_of({"rules": rules, "maxDelaySeconds": MAX_DELAY_SECONDS})


TABLE_DIGEST = table_digest(TABLE)
"""Digest of the rules: a run pins it, and none goes on under another (design §7)."""


def delay_seconds(rule: Rule, tries: int) -> int:
    """Seconds to wait after the `tries`-th try of a class before the next one."""
    if rule.first_delay_seconds == 0:
        return 0
    return min(MAX_DELAY_SECONDS, rule.first_delay_seconds << min(max(tries - 1, 0), 10))
