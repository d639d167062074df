"""The pages' English for the API's codes is what the API itself says of them."""

import json
from pathlib import Path
from typing import Final

from tenants.rules import alarms, permissions

ROOT: Final = Path(__file__).resolve().parents[3]
ENGLISH: Final = json.loads((ROOT / "tenants" / "web" / "messages" / "en.json").read_text())


def test_alarms_are_called_as_the_api_calls_them() -> None:
    for kind, meaning in alarms.MEANINGS.items():
        said = {what: ENGLISH[f"alarm_{kind.value}_{what}"] for what in ("title", "unit", "remedy")}
        assert said == {"title": meaning.title, "unit": meaning.unit, "remedy": meaning.remedy}


def test_permissions_mean_what_the_api_says() -> None:
    said = {one: ENGLISH[f"permission_{one.value}"] for one in permissions.Permission}
    assert said == permissions.MEANINGS
