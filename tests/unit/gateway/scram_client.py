"""A client's side of SCRAM, as RFC 5802 says it, to be changed where a test wants it wrong."""

import base64
import hashlib
import hmac


class ScramClient:
    """One exchange. `first`, then `final` with what the server said."""

    def __init__(self, hash_name: str, user: str, password: str, nonce: str = "fyko+d2lbbFgONRv") -> None:
        self.hash_name, self.user, self.password, self.nonce = hash_name, user, password, nonce
        self.gs2 = "n,,"
        self.binding: str | None = None
        self.server_signature = b""

    @property
    def bare(self) -> str:
        return f"n={self.user.replace('=', '=3D').replace(',', '=2C')},r={self.nonce}"

    def first(self) -> bytes:
        return (self.gs2 + self.bare).encode()

    def final(self, said: bytes, nonce: str | None = None) -> bytes:
        fields = dict(part.split("=", 1) for part in said.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            self.hash_name, self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
        )
        binding = base64.b64encode((self.binding or self.gs2).encode()).decode()
        without_proof = f"c={binding},r={nonce or fields['r']}"
        message = f"{self.bare},{said.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self.hash_name)
        stored_key = hashlib.new(self.hash_name, client_key).digest()
        signature = hmac.digest(stored_key, message, self.hash_name)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self.hash_name)
        self.server_signature = hmac.digest(server_key, message, self.hash_name)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def is_answered_by(self, said: bytes) -> bool:
        """Whether the server has proved that it knows the password, too."""
        return said == b"v=" + base64.b64encode(self.server_signature)
