"""Parameters of actions: JSON objects into structs, faults in Tencent Cloud's words. Pure."""

from typing import Annotated, Any, Final, TypeVar

import msgspec

from contracts.names import ID_LENGTH, SYSTEM_INSTANCE_ID, is_instance_id
from tenants.ckafka.request.errors import ApiError, Code

P = TypeVar("P", bound="Params")
_PREFIX: Final = "ckafka-"

Text = Annotated[str, msgspec.Meta(max_length=1000)]
Positive = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
Entries = Annotated[tuple[Text, ...], msgspec.Meta(max_length=512)]
"""Addresses and CIDRs of a whitelist."""
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Flag = Annotated[int, msgspec.Meta(ge=0, le=1)]
"""0: off, 1: on."""


class Params(msgspec.Struct, rename="pascal"):
    """The parameters of an action; a field without default is required."""


def parse(body: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises: ApiError."""
    try:
        found = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ApiError(Code.INVALID_PARAMETER, "the body is not JSON, or nested too deeply") from error
    if not isinstance(found, dict):
        raise ApiError(Code.INVALID_PARAMETER, "the body must be a JSON object")
    return found


def check_names(
    given: dict[str, Any], kind: type[Params], ignored: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    """Raises: ApiError for a parameter that is not known or not supported here, or one that lacks."""
    fields = msgspec.structs.fields(kind)
    known = {one.encode_name for one in fields}
    for name, value in given.items():
        if value is not None and name in refused:
            raise ApiError(Code.UNSUPPORTED_OPERATION, f"parameter {name} is not supported by this service")
        if name not in known and name not in ignored and name not in refused:
            raise ApiError(Code.UNKNOWN_PARAMETER, f"parameter {name[:80]!r} is not known here")
    for one in fields:
        if one.required and given.get(one.encode_name) is None:
            raise ApiError(Code.MISSING_PARAMETER, f"parameter {one.encode_name} is required")


def converted(given: dict[str, Any], kind: type[P]) -> P:
    """The parameters as a struct; null counts as left out. Raises: ApiError."""
    present = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(present, kind)
    except msgspec.ValidationError as error:
        raise ApiError(Code.INVALID_PARAMETER_VALUE, str(error)[:300]) from error


def instance_id_of(text: str) -> str:
    """Our id of an instance's CKafka id: `ckafka-abcdefghijk` is `iabcdefghijk`. What is no such id is an
    instance that does not exist. Raises: ApiError."""
    own = "i" + text.removeprefix(_PREFIX)
    if not text.startswith(_PREFIX) or not is_instance_id(own) or own == SYSTEM_INSTANCE_ID:
        raise ApiError(Code.RESOURCE_NOT_FOUND, f"there is no instance '{text[:80]}'")
    return own


def ckafka_id_of(instance_id: str) -> str:
    """The CKafka id of an instance."""
    assert len(instance_id) == ID_LENGTH, instance_id
    return _PREFIX + instance_id[1:]
