"""What can go wrong with object storage, in words that say which setting to look at."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)


class StorageError(Exception):
    """Any failure of object storage; its subclasses say what to do about it."""


class StorageUnavailable(StorageError):
    """The store did not answer, or said that it is overloaded or broken: the same call may succeed later."""


class StorageDenied(StorageError):
    """The store refused our credentials or permissions: repeating does not help, a setting must change."""


class StorageRejected(StorageError):
    """The store refused the request for another reason: a setting or a bug, never cured by repeating."""


class NoSuchBucket(StorageError):
    """The bucket does not exist."""


class NoSuchKey(StorageError):
    """The bucket has no object of that key."""


class ObjectExists(StorageError):
    """A write that was allowed only on an absent key found one."""


class ObjectTooLarge(StorageError):
    """The object is larger than the caller is willing to read."""


_ADVICE = {
    "InvalidAccessKeyId": "the store does not know the access key: check AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the signature is wrong: check AWS_SECRET_ACCESS_KEY, then ASSAY_S3_REGION",
    "AuthorizationHeaderMalformed": "the store expects another region: check ASSAY_S3_REGION",
    "ExpiredToken": "the credentials have expired: renew AWS_SESSION_TOKEN and its access key",
    "InvalidToken": "the session token is not valid: check AWS_SESSION_TOKEN",
    "RequestTimeTooSkewed": "this machine's clock differs from the store's: set the time",
    "AccessDenied": (
        "the credentials lack permission: allow s3:GetObject, s3:PutObject, s3:AbortMultipartUpload and "
        "s3:ListBucket on this bucket"
    ),
}
# versitygw's own code, which it sends with status 404.
_ADVICE["XAdminUserNotFound"] = _ADVICE["InvalidAccessKeyId"]
_DENIED = frozenset(_ADVICE) | {
    "403",
    "401",
    "AllAccessDisabled",
    "InvalidClientTokenId",
    "UnauthorizedAccess",
}
_BUSY = frozenset({"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "RequestLimitExceeded"})
_ABSENT_KEY = frozenset({"NoSuchKey", "NoSuchUpload", "NotFound", "404"})
_CHECKSUM_REFUSALS = frozenset(
    {"InvalidRequest", "InvalidArgument", "NotImplemented", "MalformedTrailerError"}
)


@contextmanager
def typed(bucket: str, key: str | None = None) -> Iterator[None]:
    """Turn what botocore raises inside the block into a `StorageError`."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise translate(error, bucket, key) from error


def translate(error: BotoCoreError | ClientError, bucket: str, key: str | None) -> StorageError:
    """The typed error for what botocore raised while it worked on `bucket` (and `key`)."""
    place = f"s3://{bucket}/{key}" if key else f"s3://{bucket}"
    if isinstance(error, ClientError):
        return _from_answer(error, bucket, key, place)
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        return StorageDenied(
            f"{place}: no usable credentials ({error}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or give the pod an identity of its cloud"
        )
    if isinstance(error, ParamValidationError):
        return StorageRejected(f"{place}: {error}")
    return StorageUnavailable(f"{place}: {error}")


def _from_answer(error: ClientError, bucket: str, key: str | None, place: str) -> StorageError:
    answer: Any = error.response
    code = str(answer.get("Error", {}).get("Code", ""))
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    text = str(answer.get("Error", {}).get("Message") or code)
    if code == "NoSuchBucket" or (key is None and code in _ABSENT_KEY):
        return NoSuchBucket(
            f"bucket {bucket} does not exist: create it, or correct the bucket of the run's storage"
        )
    if code in _ABSENT_KEY:
        return NoSuchKey(f"{place} does not exist")
    if code in ("PreconditionFailed", "412", "ConditionalRequestConflict"):
        return ObjectExists(f"{place} exists already")
    if code in _DENIED or status in (401, 403):
        return StorageDenied(f"{place}: {_ADVICE.get(code, text)} ({code})")
    # 501 is a missing feature: it stays missing however often one asks.
    if code in _BUSY or status == 429 or (status >= 500 and status != 501):
        return StorageUnavailable(f"{place}: the store answered {status} {code}: {text}")
    hint = " (if it refuses x-amz-checksum headers: ASSAY_S3_CHECKSUM_MODE=whenRequired)"
    return StorageRejected(f"{place}: {status} {code}: {text}{hint if code in _CHECKSUM_REFUSALS else ''}")
