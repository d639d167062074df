"""An identity provider that tests have for themselves, and that lies where they say so."""

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, Key
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.unit.gateway.tokens import key_set, rsa

ISSUER, CLIENT, SECRET = "https://id.example.com", "portico", "s3cret: of/the client"
CONSOLE = "http://console"
BOB = {"sub": "u-1", "preferred_username": "bob@corp.example", "groups": ["kafka-acme"]}


class _Asked(NamedTuple):
    nonce: str
    challenge: str
    redirect_uri: str
    claims: Mapping[str, Any]


class Provider:
    """Whom it signs in, says `sign_in`; what it lies, `lies` by the path of the answer."""

    def __init__(self) -> None:
        self.keys: list[Key] = [rsa()]
        self.signs_with: Key = rsa()
        self.told: dict[str, Any] = {}
        """What its description says otherwise."""
        self.claims: dict[str, Any] = {}
        """What its next ID token says otherwise; None: not at all."""
        self.header: dict[str, Any] = {}
        self.token: str | None = None
        """Instead of the ID token."""
        self.userinfo: dict[str, Any] = {}
        self.lies: dict[str, Response] = {}
        self.holds = asyncio.Event()
        self.holds.set()
        self.asked: list[str] = []
        self._codes: dict[str, _Asked] = {}
        routes = [
            Route("/.well-known/openid-configuration", self._description),
            Route("/jwks", self._jwks),
            Route("/token", self._tokens, methods=["POST"]),
            Route("/me", self._userinfo),
        ]
        self.app = Starlette(routes=routes)

    def sign_in(self, url: str, **claims: Any) -> dict[str, str]:
        """Somebody signs in at the address that the browser was sent to: what it comes back with."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{ISSUER}/authorize?")
        assert (query["client_id"], query["code_challenge_method"]) == (CLIENT, "S256")
        code = f"code-{len(self._codes)}"
        self._codes[code] = _Asked(
            query["nonce"], query["code_challenge"], query["redirect_uri"], {**BOB, **claims}
        )
        return {"code": code, "state": query["state"]}

    async def _answer(self, request: Request, told: Any, status: int = 200) -> Response:
        self.asked.append(request.url.path)
        await self.holds.wait()
        return self.lies.get(request.url.path) or JSONResponse(told, status)

    async def _description(self, request: Request) -> Response:
        told = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/jwks",
            "userinfo_endpoint": f"{ISSUER}/me",
            "end_session_endpoint": f"{ISSUER}/logout",
            "scopes_supported": ["openid", "profile", "groups"],
            **self.told,
        }
        return await self._answer(request, told)

    async def _jwks(self, request: Request) -> Response:
        return await self._answer(request, json.loads(key_set(*self.keys)))

    async def _userinfo(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer access"
        return await self._answer(request, {"sub": "u-1", **self.userinfo})

    async def _tokens(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        pair = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        assert [unquote(one) for one in pair.split(":")] == [CLIENT, SECRET]
        asked = self._codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if asked is None or challenge.decode().rstrip("=") != asked.challenge:
            return await self._answer(request, {"error": "invalid_grant"}, 400)
        assert form["redirect_uri"] == asked.redirect_uri == f"{CONSOLE}/"
        return await self._answer(request, {"access_token": "access", "id_token": self._id_token(asked)})

    def _id_token(self, asked: _Asked) -> str:
        if self.token is not None:
            return self.token
        now_s = int(time.time())
        said = {"iss": ISSUER, "aud": CLIENT, "iat": now_s, "exp": now_s + 300, "nonce": asked.nonce}
        claims = {**said, **asked.claims, **self.claims}
        key = self.signs_with
        head = {"alg": "ES256" if isinstance(key, ECKey) else "RS256", "kid": key.kid, **self.header}
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(head, kept, key, algorithms=[head["alg"]])
