"""`python -m tests.openapi`: the REST API's document, for the documents' site.

With `--rewrite` it goes to tenants/web/openapi.json, of which the pages' types and `portico.client` are made.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from runtime.internal_http import InternalClient
from tenants.app import create_console_app
from tenants.config import ConsoleConfig, sqlite_url
from tenants.console import Console
from tenants.rules.vports import parse_vip

KEPT: Final = Path(__file__).resolve().parents[1] / "tenants" / "web" / "openapi.json"


def document() -> dict[str, Any]:
    """As a console answers GET /v1/openapi.json."""
    with tempfile.TemporaryDirectory() as directory:
        config = ConsoleConfig(
            database_url=sqlite_url(str(Path(directory) / "console.db")),
            vip_pool=parse_vip("127.0.0.1", 20000, 29999),
            default_cluster_id="builtin-1",
            secret=None,
        )
        console = Console(config, InternalClient("http://master", "x"))
        try:
            made: dict[str, Any] = create_console_app(console).openapi()
            return made
        finally:
            console.close()


def rendered() -> str:
    """As text."""
    return json.dumps(document(), indent=1) + "\n"


if __name__ == "__main__":
    if "--rewrite" in sys.argv:
        KEPT.write_text(rendered())
    else:
        print(rendered(), end="")
