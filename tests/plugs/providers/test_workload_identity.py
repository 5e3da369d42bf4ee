"""Claude in a cloud with the identity of the pod: no key is configured, and each request is signed
with credentials from the cloud's token service.
"""

from __future__ import annotations

import base64
import json
import threading
from binascii import crc32
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from struct import pack
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.fakes import Scripted, says

from ...models.conftest import read
from .test_clouds import models

pytestmark = pytest.mark.full

Answer = tuple[int, dict[str, str], bytes]
STS = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAPOD</AccessKeyId>
<SecretAccessKey>secret-of-the-hour</SecretAccessKey><SessionToken>session-01</SessionToken>
<Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""


@contextmanager
def service(answer: Callable[[str, Any, bytes], Answer]) -> Iterator[str]:
    """An HTTP service in its own threads, since the clouds' packages block while they wait."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, text = answer(self.path, self.headers, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def event_frame(event: dict[str, Any]) -> bytes:
    """An event of a reply as Bedrock frames it (`application/vnd.amazon.eventstream`)."""
    named = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        pack("!B", len(name)) + name.encode() + pack("!BH", 7, len(value)) + value.encode()
        for name, value in named.items()
    )
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    prelude = pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + pack("!I", crc32(prelude)) + headers + payload
    return message + pack("!I", crc32(message))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of a pod, without the tester's own settings."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


async def test_bedrock_is_asked_with_the_role_of_the_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3", reason="needs anthropic[bedrock]")
    asked: list[Any] = []

    def sts(path: str, headers: Any, body: bytes) -> Answer:
        form = parse_qs(body.decode())
        if (form["RoleArn"], form["WebIdentityToken"]) != ([role], ["token-of-the-pod"]):
            return (
                403,
                {},
                b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>",
            )
        return 200, {"Content-Type": "text/xml"}, STS.encode()

    def bedrock(path: str, headers: Any, body: bytes) -> Answer:
        asked.append((path, headers["Authorization"], headers["X-Amz-Security-Token"]))
        frames = [event_frame(event) for event in Scripted(blocks=[says("Hello.")]).events()]
        return 200, {"Content-Type": "application/vnd.amazon.eventstream"}, b"".join(frames)

    role = "arn:aws:iam::123456789012:role/notebook-users"
    (tmp_path / "token").write_text("token-of-the-pod")
    with service(sts) as token_service, service(bedrock) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", token_service)
        monkeypatch.setenv("AWS_ROLE_ARN", role)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        account = {"aws_region": "eu-central-1"}
        known = models(tmp_path, kind="bedrock", base_url=url, account=account)
        reply = await read(known.get("cloud:eu.anthropic.claude-sonnet-4-5-20250929-v1:0"))
        await known.close()
    assert reply.text == [says("Hello.")]
    ((path, signed, session),) = asked
    assert path.endswith("claude-sonnet-4-5-20250929-v1:0/invoke-with-response-stream")
    assert "Credential=ASIAPOD/" in signed
    assert "/eu-central-1/bedrock/aws4_request" in signed
    assert session == "session-01"


async def test_vertex_is_asked_with_the_token_of_the_metadata_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("google.auth", reason="needs anthropic[vertex]")
    asked: list[str] = []

    def metadata(path: str, headers: Any, body: bytes) -> Answer:
        flavor = {"Metadata-Flavor": "Google", "Content-Type": "application/json"}
        if "/token" in path:
            token = {"access_token": "of-the-pod", "expires_in": 3600, "token_type": "Bearer"}
            return 200, flavor, json.dumps(token).encode()
        if "/project/project-id" in path:
            return 200, {**flavor, "Content-Type": "application/text"}, b"campus-ai"
        account = {"email": "notebook-users@campus-ai", "scopes": [], "aliases": ["default"]}
        return 200, flavor, json.dumps(account).encode()

    def vertex(path: str, headers: Any, body: bytes) -> Answer:
        asked.append(headers["Authorization"])
        events = Scripted(blocks=[says("Hello.")]).events()
        text = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
        return 200, {"Content-Type": "text/event-stream"}, text.encode()

    with service(metadata) as address, service(vertex) as url:
        host = address.removeprefix("http://")
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"):
            monkeypatch.setenv(name, host)
        account = {"project_id": "campus-ai", "region": "europe-west1"}
        known = models(tmp_path, kind="vertex", base_url=f"{url}/v1", account=account)
        reply = await read(known.get("cloud:claude-sonnet-4-5@20250929"))
        await known.close()
    assert reply.text == [says("Hello.")]
    assert asked == ["Bearer of-the-pod"]
