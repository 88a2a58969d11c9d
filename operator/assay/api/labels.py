"""Labels, annotations and well-known names that tie Kubernetes objects to a run."""

GROUP = "assay.dev"
VERSION = "v1alpha1"
MANAGED_BY = "app.kubernetes.io/managed-by"

ROLE = f"{GROUP}/role"
ROLE_ATTEMPT = "attempt"
ROLE_GATEWAY = "gateway"
RUN_UID = f"{GROUP}/run-uid"
NETWORK = f"{GROUP}/network"
"""`none` or `internet`: chooses the chart's static NetworkPolicy for an attempt pod."""

TRY_SPEC = f"{GROUP}/try-spec"
"""Annotation of the pod: the whole `TrySpec` as JSON, read by runner and gateway alike."""
RENDERED_DIGEST = f"{GROUP}/rendered-digest"
"""Annotation of the Job: digest of the pod template as rendered; a pod that differs is `PodMutated`."""

ATTEMPT = f"{GROUP}/attempt"
"""Annotation of Job and pod: the attempt's whole key, since names are cut and hashed."""
TRY_NUMBER = f"{GROUP}/try"
"""Annotation of the Job: which try of its attempt it is."""
VERIFIES = f"{GROUP}/verifies"
"""Annotation of the Job: number of the try that this one judges again; absent where an agent runs."""
TRY_RECORD = f"{GROUP}/try-record"
"""Annotation of the Job: the try's record, where the pod's facts would be lost with the pod."""
LEDGER = f"{GROUP}/ledger"
VARIANT = f"{GROUP}/variant"
"""Labels of Job and pod, for people: `kubectl get jobs -l assay.dev/variant=…`."""

PROVIDER_KEY = f"{GROUP}/provider-key"
"""Label of a Secret, with the value `true`: its keys may be sent to the endpoints that AgentVariants name."""

ATTEMPT_SERVICE_ACCOUNT = "assay-attempt"
GATEWAY_SERVICE = "assay-gateway"
GATEWAY_HOST = "assay-gateway.internal"
"""Name under which attempt pods reach the gateway, by `hostAliases`."""
GATEWAY_PORT = 8080
GATEWAY_AUDIENCE = "assay-gateway"
