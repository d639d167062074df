"""The classes of all fields of all APIs in one table, for review and for the test that guards it.

`python -m wire.classification > wire/classification.json` writes the committed copy anew; do that after a
change of the rules or of kio, and read the difference before committing it.
"""

import json
import sys
from typing import Any

from wire.classify import KIO_VERSION, check_kio_version, classify, needs_class
from wire.codec import payload_class
from wire.schema import MessageKind, fields_of, kind_of, payload_apis, versions_of


def _collect(message_class: Any, kind: MessageKind, path: str, rows: dict[str, str]) -> None:
    for field in fields_of(message_class):
        at = f"{path}.{field.name}" + ("[]" if field.is_array else "")
        if field.kafka_type == "entity":
            _collect(field.value_type, kind, at, rows)
        elif needs_class(field):
            found = classify(kind, at, field).value
            known = rows.setdefault(at, found)
            assert known == found, f"{kind}{at} is {known} in one version and {found} in another"


def classification() -> dict[str, Any]:
    """Message -> path -> class, for everything in kio. Loads all of its modules, which takes seconds.

    Raises: WrongKioVersion, UnclassifiedField.
    """
    check_kio_version()
    messages: dict[str, dict[str, str]] = {}
    for api_key, api in payload_apis().items():
        for version in versions_of(api):
            for response in (False, True):
                message_class = payload_class(api_key, version, response=response)
                kind = kind_of(message_class)
                _collect(message_class, kind, "", messages.setdefault(str(kind), {}))
    fields = {kind: dict(sorted(rows.items())) for kind, rows in sorted(messages.items()) if rows}
    return {"kio": KIO_VERSION, "fields": fields}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(classification(), indent=1) + "\n")
