"""The runner's termination message: a hint that is checked before anything is read from it."""

from pydantic import ValidationError

from assay.api.evidence import TERMINATION_MESSAGE_BYTES, TerminationMessage
from assay.core.observation import RUNNER, PodView


def read_hint(pod: PodView, job_name: str) -> TerminationMessage | str:
    """The pod's termination message, or why it is ignored, in words for a person."""
    text = pod.container(RUNNER).message
    if not text:
        return "it is empty"
    size = len(text.encode())
    if size > TERMINATION_MESSAGE_BYTES:
        return f"it has {size} bytes, more than {TERMINATION_MESSAGE_BYTES}"
    try:
        hint = TerminationMessage.read_leniently(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            return "it is not JSON"
        return f"field {'.'.join(map(str, first['loc'])) or '(root)'}: {first['msg']}"
    if (hint.job_name, hint.pod_uid) != (job_name, pod.uid):
        return f"it is of another try: {hint.job_name}, pod {hint.pod_uid}"
    return hint
