"""The OAuth client of the official Python SDK: `python login.py URL`. It writes the address at which its user
logs in to stdout, and reads the address to which the user is sent back from stdin."""

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken


class Memory:
    """Stores everything in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def redirect(url: str) -> None:
    print(url, flush=True)


async def callback() -> AuthorizationCodeResult:
    url = await asyncio.to_thread(sys.stdin.readline)
    fields = {name: values[0] for name, values in parse_qs(urlsplit(url.strip()).query).items()}
    return AuthorizationCodeResult(code=fields["code"], state=fields.get("state"), iss=fields.get("iss"))


async def main(url: str) -> None:
    metadata = OAuthClientMetadata(
        client_name="login",
        redirect_uris=["http://127.0.0.1:9/callback"],
        grant_types=["authorization_code"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(url, metadata, Memory(), redirect, callback)
    async with create_mcp_http_client(auth=auth) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            tools = (await client.list_tools()).tools
    print(len(tools), flush=True)


asyncio.run(main(sys.argv[1]))
