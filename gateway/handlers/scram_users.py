"""DescribeUserScramCredentials 0, AlterUserScramCredentials 0: users of the instance by Kafka's own tools.

Only superusers of the instance may (ADR 46). A client sends the salted password, of which what SCRAM checks
by follows; nothing else is kept. Each mechanism has a password of its own then, as in Kafka: one that was set
for SCRAM-SHA-512 alone leaves the other, and PLAIN, as they were. A user without any is deleted.
"""

from collections import Counter
from functools import partial
from typing import Final, TypeAlias, cast

from kio.schema.errors import ErrorCode

from contracts.access_orders import AccessOrder, UserCredential, UserMechanism
from contracts.users import (
    ITERATIONS,
    ITERATIONS_MAX,
    SALT_BYTES_MAX,
    KafkaUser,
    Mechanism,
    salted_credential,
)
from gateway.session.call import Answer, Call, Later
from gateway.session.deps import ChangesAccess
from wire.api_table import ApiKey
from wire.messages import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_Error: TypeAlias = dict[str, object]
_CODES: Final = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}
_NUMBERS: Final = {mechanism: code for code, mechanism in _CODES.items()}
_HASH_BYTES: Final = {Mechanism.SCRAM_SHA_256: 32, Mechanism.SCRAM_SHA_512: 64}
_REFUSAL: Final[_Error] = {
    "error_code": ErrorCode.cluster_authorization_failed,
    "error_message": "only superusers of the instance see and change its users",
}


def on_request(
    call: Call, request: DescribeUserScramCredentialsRequest | AlterUserScramCredentialsRequest
) -> Answer | Later:
    """Look whether the client may; changes are made by the control plane."""
    if call.api_key == ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
        return _description(call, cast(DescribeUserScramCredentialsRequest, request))
    return _alteration(call, cast(AlterUserScramCredentialsRequest, request))


def _description(call: Call, request: DescribeUserScramCredentialsRequest) -> Answer:
    if not call.is_superuser:
        return call.answer(**_REFUSAL)
    present = {user.name: user for user in call.spec.users}
    asked = Counter(user.name for user in request.users or ()) or Counter(list(present))
    return call.answer(results=[_described(present.get(name), name, times) for name, times in asked.items()])


def _described(user: KafkaUser | None, name: str, times: int) -> dict[str, object]:
    if times > 1:
        return {"user": name, **_error(ErrorCode.duplicate_resource, "it is named twice")}
    if user is None:
        return {"user": name, **_error(ErrorCode.resource_not_found, "there is no such user")}
    infos = [{"mechanism": _NUMBERS[one.mechanism], "iterations": one.iterations} for one in user.credentials]
    return {"user": name, "credential_infos": infos}


def _alteration(call: Call, request: AlterUserScramCredentialsRequest) -> Answer | Later:
    """A user with one wrong entry stays as it is, the others are changed. What a user may be called is known
    to the control plane, which refuses all of it."""
    named = Counter((one.name, one.mechanism) for one in request.deletions)
    named.update((one.name, one.mechanism) for one in request.upsertions)
    errors: dict[str, _Error] = {name: {} for name, _ in named}
    if not call.is_superuser:
        return _answer(call, dict.fromkeys(errors, _REFUSAL))
    for (name, mechanism), times in named.items():
        if mechanism not in _CODES:
            errors[name] = _error(ErrorCode.unsupported_sasl_mechanism, "1: SCRAM-SHA-256, 2: SCRAM-SHA-512")
        elif times > 1:
            errors[name] = _error(ErrorCode.duplicate_resource, "a mechanism of a user is named twice")
    for gone in request.deletions:
        errors[gone.name] = errors[gone.name] or _deletion_fault(call, gone)
    for new in request.upsertions:
        errors[new.name] = errors[new.name] or _credential_fault(new)
    order = AccessOrder(
        instance_id=call.spec.instance_id,
        principal=call.conversation.principal,
        address=call.conversation.address,
        credentials=tuple(_credential(one) for one in request.upsertions if not errors[one.name]),
        forgotten=tuple(
            UserMechanism(one.name, _CODES[one.mechanism])
            for one in request.deletions
            if not errors[one.name]
        ),
    )
    if not order.credentials and not order.forgotten:
        return _answer(call, errors)
    return Later(partial(_altered, call, order, errors))


def _deletion_fault(call: Call, gone: ScramCredentialDeletion) -> _Error:
    held = [one.mechanism for user in call.spec.users if user.name == gone.name for one in user.credentials]
    if _CODES[gone.mechanism] in held:
        return {}
    return _error(ErrorCode.resource_not_found, "there is no such password")


def _credential_fault(new: ScramCredentialUpsertion) -> _Error:
    if not ITERATIONS <= new.iterations <= ITERATIONS_MAX:
        return _error(ErrorCode.unacceptable_credential, f"iterations are {ITERATIONS} to {ITERATIONS_MAX}")
    if not 0 < len(new.salt) <= SALT_BYTES_MAX:
        return _error(ErrorCode.unacceptable_credential, f"a salt has 1 to {SALT_BYTES_MAX} bytes")
    if len(new.salted_password) != _HASH_BYTES[_CODES[new.mechanism]]:
        return _error(ErrorCode.unacceptable_credential, "a salted password is as long as its hash")
    return {}


def _credential(new: ScramCredentialUpsertion) -> UserCredential:
    mechanism = _CODES[new.mechanism]
    made = salted_credential(mechanism, new.salted_password, new.salt, new.iterations)
    return UserCredential(new.name, made)


async def _altered(call: Call, order: AccessOrder, errors: dict[str, _Error], deps: ChangesAccess) -> Answer:
    answer = await deps.change_access(order)
    if answer.refusal:
        error_code = ErrorCode.request_timed_out if answer.is_passing else ErrorCode.policy_violation
        errors = {name: error or _error(error_code, answer.refusal) for name, error in errors.items()}
    return _answer(call, errors)


def _answer(call: Call, errors: dict[str, _Error]) -> Answer:
    return call.answer(results=[{"user": name, **error} for name, error in errors.items()])


def _error(error_code: ErrorCode, message: str) -> _Error:
    return {"error_code": error_code, "error_message": message}
