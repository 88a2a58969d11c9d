"""Every setting of the gateway, each an environment variable that the chart sets."""

from typing import Annotated, Literal

from pydantic import Field

from assay.adapters.environment import EnvironmentSettings
from assay.adapters.kube_config import KubeConfig, load_kube_config
from assay.adapters.s3 import S3Settings
from assay.adapters.s3_upload import LARGEST_OBJECT_BYTES
from assay.api.labels import GATEWAY_PORT

Seconds = Annotated[float, Field(ge=0, le=24 * 3600)]
Bytes = Annotated[int, Field(ge=1, le=LARGEST_OBJECT_BYTES)]

MIB = 1 << 20


class GatewaySettings(EnvironmentSettings):
    """The gateway's own settings; storage and API server have theirs."""

    host: str = Field(default="0.0.0.0", alias="ASSAY_HOST", description="Address to listen on.")  # noqa: S104
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=GATEWAY_PORT, alias="ASSAY_PORT", description="Port to listen on; 0 picks one."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", alias="ASSAY_LOG_LEVEL", description="`info` writes one line a request."
    )
    verdict_seconds: Annotated[float, Field(ge=0, le=30)] = Field(
        default=20,
        alias="ASSAY_VERDICT_SECONDS",
        description="How long a TokenReview is believed; the token of a deleted pod works for this long.",
    )
    secret_seconds: Annotated[float, Field(ge=0, le=60)] = Field(
        default=30,
        alias="ASSAY_SECRET_SECONDS",
        description="How long a provider key is kept after its read.",
    )
    uploads: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=8,
        alias="ASSAY_UPLOADS",
        description="Evidence uploads at a time; each holds at most 24 MiB. Others wait.",
    )
    upload_idle_seconds: Seconds = Field(
        default=60,
        alias="ASSAY_UPLOAD_IDLE_SECONDS",
        description="An upload that sends nothing for so long ends.",
    )
    evidence_file_bytes: Bytes = Field(
        default=20 * 1024 * MIB, alias="ASSAY_EVIDENCE_FILE_BYTES", description="Largest evidence file."
    )
    model_request_bytes: Bytes = Field(
        default=32 * MIB, alias="ASSAY_MODEL_REQUEST_BYTES", description="Largest request to a model."
    )
    provider_concurrency: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=64,
        alias="ASSAY_PROVIDER_CONCURRENCY",
        description="Calls at a time to one provider (host and port of its endpoint), per replica.",
    )
    provider_queue_seconds: Seconds = Field(
        default=300,
        alias="ASSAY_PROVIDER_QUEUE_SECONDS",
        description="How long a call waits for a free place before it gets 429 ProviderBusy.",
    )
    provider_connect_seconds: Seconds = Field(
        default=15, alias="ASSAY_PROVIDER_CONNECT_SECONDS", description="Time to connect to a provider."
    )
    provider_silence_seconds: Seconds = Field(
        default=1200,
        alias="ASSAY_PROVIDER_SILENCE_SECONDS",
        description="A provider that sends no byte for so long has failed; long reasoning is silent.",
    )
    provider_proxy: str | None = Field(
        default=None,
        alias="ASSAY_PROVIDER_PROXY",
        pattern=r"^https?://",
        description="HTTP proxy for calls to providers, where a company has one.",
    )
    notice_seconds: Seconds = Field(
        default=5,
        alias="ASSAY_NOTICE_SECONDS",
        description="After SIGTERM: time in which new requests are still served, until Services know.",
    )
    drain_seconds: Seconds = Field(
        default=600,
        alias="ASSAY_DRAIN_SECONDS",
        description="After that: time for requests that are under way. "
        "terminationGracePeriodSeconds must be larger than both together.",
    )


class Settings:
    """All settings of the process, read at once so that every mistake shows at the start."""

    def __init__(self, gateway: GatewaySettings, storage: S3Settings, kube: KubeConfig) -> None:
        self.gateway, self.storage, self.kube = gateway, storage, kube

    @classmethod
    def from_env(cls) -> "Settings":
        """Raises BadSettings or KubeConfigError."""
        return cls(GatewaySettings.from_env(), S3Settings.from_env(), load_kube_config())
