"""An identity provider: makes tokens, and publishes the key that they are verified by."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.loopback import listening

if TYPE_CHECKING:
    from collections.abc import Iterator

AUDIENCE = "braid"


class Issuer:
    """Makes tokens of one key."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, tenants: object, **claims: object) -> str:
        """Return a token for an hour of somebody who belongs to a tenant, or to several."""
        ends = int(time.time()) + 3_600
        given = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "exp": ends, "tenant_id": tenants} | claims
        return jwt.encode(given, self._key, algorithm="RS256", headers={"kid": "one"})

    def published(self, path: str) -> dict[str, Any]:
        """Return one of the two documents of OpenID Connect's discovery."""
        if path == "/keys":
            key = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
            return {"keys": [key | {"kid": "one", "use": "sig", "alg": "RS256"}]}
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}


@contextmanager
def issuer() -> Iterator[Issuer]:
    """Run an identity provider on a loopback port."""

    class Documents(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(made.published(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with listening(Documents) as address:
        made = Issuer(address)
        yield made
