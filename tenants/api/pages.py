"""The built pages, sent as they were compressed at the build: brotli, gzip, or as they are."""

import os
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

_ENCODINGS: Final = {"br": ".br", "gzip": ".gz"}
"""The smaller first."""


def encoding_of(accepted: str) -> str | None:
    """The best encoding that an Accept-Encoding allows (RFC 9110, 12.5.3); None: as it is."""
    offered: dict[str, bool] = {}
    for part in accepted.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        offered[name] = not any(one.replace(" ", "") in ("q=0", "q=0.0", "q=0.00") for one in parameters)
    return next((name for name in _ENCODINGS if offered.get(name, offered.get("*", False))), None)


class CompressedPages(StaticFiles):
    """Each encoding is a representation of its own, with its own ETag."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """The file, or its compressed form where the caller takes that."""
        plain = Path(full_path)
        if plain.suffix in _ENCODINGS.values():
            raise HTTPException(404)
        asked = Headers(scope=scope)
        encoding = encoding_of(asked.get("accept-encoding", ""))
        form = plain if encoding is None else plain.with_name(plain.name + _ENCODINGS[encoding])
        headers = {"Vary": "Accept-Encoding"}
        if encoding is not None and form.is_file():
            headers["Content-Encoding"] = encoding
            stat_result = form.stat()
        else:
            form = plain
        # The type is that of the plain file.
        media_type = FileResponse(plain).media_type
        answer = FileResponse(
            form, status_code=status_code, stat_result=stat_result, headers=headers, media_type=media_type
        )
        if self.is_not_modified(answer.headers, asked):
            return NotModifiedResponse(answer.headers)
        return answer
