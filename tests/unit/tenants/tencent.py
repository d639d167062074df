"""Requests as Tencent's SDK signs them, to be sent by other means."""

import json
import time
from typing import Any
from unittest import mock

import httpx
from tencentcloud.ckafka.v20190819.ckafka_client import CkafkaClient
from tencentcloud.common.credential import Credential
from tencentcloud.common.http.request import RequestInternal
from tencentcloud.common.profile.client_profile import ClientProfile
from tencentcloud.common.profile.http_profile import HttpProfile

HOST = "console"


class Signer:
    """Signs with one access key."""

    def __init__(self, client: httpx.AsyncClient, key: dict[str, Any]) -> None:
        self._client = client
        self._credential = Credential(key["secret_id"], key["secret_key"])

    def signed(
        self,
        action: str,
        params: dict[str, Any] | None = None,
        *,
        region: str = "local",
        at_s: float | None = None,
        service: str = "ckafka",
        unsigned_payload: bool = False,
    ) -> tuple[dict[str, str], bytes]:
        """Headers and body."""
        profile = ClientProfile(httpProfile=HttpProfile(endpoint=HOST, protocol="http"))
        profile.unsignedPayload = unsigned_payload
        sdk = CkafkaClient(self._credential, region, profile)
        sdk._service = service
        request = RequestInternal(HOST, "POST", "/", header={})
        now_s = time.time() if at_s is None else at_s
        with mock.patch("time.time", return_value=now_s):
            sdk._build_req_inter(action, params or {}, request)
        return dict(request.header), request.data.encode()

    async def send(self, headers: dict[str, str], body: bytes) -> Any:
        """The `Response` of an answer."""
        answer = await self._client.post("/", headers=headers, content=body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        response = json.loads(answer.content)["Response"]
        assert response["RequestId"]
        return response

    async def __call__(self, action: str, params: dict[str, Any] | None = None, **more: Any) -> Any:
        """`Result`. Raises: AssertionError when there is an error instead."""
        response = await self.send(*self.signed(action, params, **more))
        assert "Error" not in response, response
        return response["Result"]

    async def code(self, action: str, params: dict[str, Any] | None = None, **more: Any) -> str:
        """The code of an error."""
        response = await self.send(*self.signed(action, params, **more))
        return str(response["Error"]["Code"])
