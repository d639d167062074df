"""Refusals in Tencent Cloud's words: codes of its API 3.0. Pure.

Source: the common error codes of API 3.0, and `tencentcloud.ckafka.v20190819.errorcodes`.
"""

from enum import StrEnum
from typing import Final

from tenants.rules.errors import (
    Conflict,
    Exists,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    Refused,
    TooMany,
    Unauthenticated,
    Unavailable,
)


class Code(StrEnum):
    """What this endpoint answers with."""

    INVALID_AUTHORIZATION = "AuthFailure.InvalidAuthorization"
    SECRET_ID_NOT_FOUND = "AuthFailure.SecretIdNotFound"
    SIGNATURE_EXPIRE = "AuthFailure.SignatureExpire"
    SIGNATURE_FAILURE = "AuthFailure.SignatureFailure"
    TOKEN_FAILURE = "AuthFailure.TokenFailure"
    UNAUTHORIZED_OPERATION = "UnauthorizedOperation"
    INVALID_ACTION = "InvalidAction"
    NO_SUCH_VERSION = "NoSuchVersion"
    UNSUPPORTED_REGION = "UnsupportedRegion"
    UNSUPPORTED_PROTOCOL = "UnsupportedProtocol"
    UNSUPPORTED_OPERATION = "UnsupportedOperation"
    MISSING_PARAMETER = "MissingParameter"
    UNKNOWN_PARAMETER = "UnknownParameter"
    INVALID_PARAMETER = "InvalidParameter"
    INVALID_PARAMETER_VALUE = "InvalidParameterValue"
    REPETITION_VALUE = "InvalidParameterValue.RepetitionValue"
    TOPIC_NAME_ALREADY_EXIST = "InvalidParameterValue.TopicNameAlreadyExist"
    RESOURCE_NOT_FOUND = "ResourceNotFound"
    FAILED_OPERATION = "FailedOperation"
    LIMIT_EXCEEDED = "LimitExceeded"
    REQUEST_LIMIT_EXCEEDED = "RequestLimitExceeded"
    REQUEST_SIZE_LIMIT_EXCEEDED = "RequestSizeLimitExceeded"
    SERVICE_UNAVAILABLE = "ServiceUnavailable"
    INTERNAL_ERROR = "InternalError"


class ApiError(Exception):
    """An answer with an error; `message` is a sentence for whoever sent the request."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


_CODES: Final[dict[type[Refused], Code]] = {
    Invalid: Code.INVALID_PARAMETER_VALUE,
    NotFound: Code.RESOURCE_NOT_FOUND,
    Conflict: Code.FAILED_OPERATION,
    Exists: Code.REPETITION_VALUE,
    LimitReached: Code.LIMIT_EXCEEDED,
    Unauthenticated: Code.INVALID_AUTHORIZATION,
    Forbidden: Code.UNAUTHORIZED_OPERATION,
    TooMany: Code.REQUEST_LIMIT_EXCEEDED,
    Unavailable: Code.SERVICE_UNAVAILABLE,
}


def of_refusal(refusal: Refused) -> ApiError:
    """What a use case refused."""
    return ApiError(_CODES[type(refusal)], refusal.detail)


def wrong_value(name: str, why: str) -> ApiError:
    """A parameter's value is not possible."""
    return ApiError(Code.INVALID_PARAMETER_VALUE, f"{name}: {why}")


def unsupported(what: str) -> ApiError:
    """Something that CKafka does and this service does not."""
    return ApiError(Code.UNSUPPORTED_OPERATION, what)
