"""A corporate network on this machine: its own CA, and a proxy that requires a header."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Authority:
    """A private CA, and a certificate for 127.0.0.1 and `localhost` signed by it."""

    folder: Path

    @property
    def bundle(self) -> str:
        return str(self.folder / "ca.pem")

    def server(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        return context


def make_authority(folder: Path) -> Authority:
    """Makes them with the `openssl` program, valid for a day."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "rsa:2048", "-nodes", "-days", "1")
    signs = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # Python 3.13 requires it
    openssl(
        "req", "-x509", *key, *signs, "-subj", "/CN=Corporate CA", "-keyout", "ca.key", "-out",
        "ca.pem",
    )  # fmt: skip
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost\nauthorityKeyIdentifier=keyid\n"
    (folder / "names").write_text(names)
    openssl("req", *key[:3], "-subj", "/CN=model", "-keyout", "server.key", "-out", "server.csr")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", *signed, "-days", "1", "-out", "server.pem")
    return Authority(folder)


@dataclass
class Proxy:
    """A CONNECT proxy; without the header `X-Team: atlas-secret` it answers 407."""

    url: str = ""
    tunnels: list[str] = field(default_factory=list)
    """The addresses to which it connected on request."""
    refused: int = 0


@asynccontextmanager
async def proxy() -> AsyncIterator[Proxy]:
    running: set[asyncio.Task[None]] = set()
    told = Proxy()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await _serve(told, reader, writer)
        finally:
            running.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    told.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield told
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _serve(told: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    target = head.split()[1]
    if "x-team: atlas-secret" not in head.lower():
        told.refused += 1
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        return
    told.tunnels.append(target)
    host, _, port = target.partition(":")
    far_reader, far_writer = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    try:
        await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
    finally:
        far_writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()
