"""Names of the outcome classes (design §6). What follows from a class is data in `core.outcomes`."""

from enum import StrEnum


class OutcomeClass(StrEnum):
    """The class of a try."""

    GRADED = "Graded"
    AGENT_OOM = "AgentOOM"
    AGENT_DISK_EXCEEDED = "AgentDiskExceeded"
    CONTEXT_EXCEEDED = "ContextExceeded"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    REFUSED_FALLBACK = "RefusedFallback"
    REFUSED_BLOCKED = "RefusedBlocked"
    DISRUPTED = "Disrupted"
    VERIFIER_TIMEOUT = "VerifierTimeout"
    VERIFIER_CRASH = "VerifierCrash"
    JUDGE_INCOMPLETE = "JudgeIncomplete"
    INFRA_START = "InfraStart"
    SETUP_FAILED = "SetupFailed"
    RUNNER_RESTARTED = "RunnerRestarted"
    RESULT_MISSING = "ResultMissing"
    ARTIFACTS_PARTIAL = "ArtifactsPartial"
    INVALID_RESULT = "InvalidResult"
    ISOLATION_ABSENT = "IsolationAbsent"
    AGENT_NEVER_CALLED = "AgentNeverCalled"
    POD_MUTATED = "PodMutated"
    PROVIDER_RATE_LIMITED = "ProviderRateLimited"
    PROVIDER_AUTH = "ProviderAuth"
    PROVIDER_FUNDS = "ProviderFunds"
    LEDGER_MISMATCH = "LedgerMismatch"
    TAMPERED = "Tampered"
    UNRECOGNISED = "Unrecognised"
