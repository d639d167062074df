"""Stands before an S3 server: of three requests one is told to slow down, and the answer of one is lost."""

import itertools
import sys
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_BODY_HEADERS = ("content-length", "transfer-encoding", "connection")


class Troubled(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    to = ""
    turns = itertools.count()

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        turn = next(self.turns) % 3
        if turn == 1:
            self.send_response(503, "Slow Down")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        behind = HTTPConnection(self.to)
        behind.request(self.command, self.path, body, dict(self.headers))
        found = behind.getresponse()
        told = found.read()
        behind.close()
        if turn == 2:
            self.close_connection = True  # it was done, and nobody hears of it
            return
        self.send_response(found.status)
        for name, value in found.getheaders():
            if name.lower() not in _BODY_HEADERS:
                self.send_header(name, value)
        length = found.getheader("content-length") if self.command == "HEAD" else str(len(told))
        self.send_header("content-length", length or "0")
        self.end_headers()
        self.wfile.write(told)


for _verb in ("GET", "PUT", "HEAD", "DELETE", "POST"):
    setattr(Troubled, f"do_{_verb}", Troubled.answer)

if __name__ == "__main__":
    port, url = sys.argv[1:]
    Troubled.to = urlsplit(url).netloc
    ThreadingHTTPServer(("127.0.0.1", int(port)), Troubled).serve_forever()
