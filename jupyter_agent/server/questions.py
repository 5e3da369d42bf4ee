"""The question of a request, checked: text, attachments, selections."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from jupyter_agent.conversations.attachments import (
    MOST_PDF_CHARACTERS,
    PDF,
    fit_pictures,
    is_pdf,
)
from jupyter_agent.conversations.request import new_id
from jupyter_agent.errors import RequestError
from jupyter_agent.text.encodings import is_text
from jupyter_agent.text.images import KINDS

MAX_IMAGE_CHARS = 20_000_000
"""Characters of a picture in base64, before it is scaled down."""
FILES = (
    "application/pdf", "text/csv", "text/tab-separated-values", "text/plain", "text/markdown",
    "application/json",
)  # fmt: skip
"""The text types come last."""
MAX_TEXT_CHARS = 7_000_000
"""Characters of a text file in base64; only its beginning is sent."""
MAX_NAME_CHARS = 200


async def with_fitting_pictures(question: Mapping[str, Any]) -> dict[str, Any]:
    """The question as it is stored: with pictures that model services accept."""
    return {**question, "parts": await fit_pictures(question["parts"])}


def last_question(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The last user message as a UIMessage. Raises RequestError that names the field."""
    for message in reversed(messages):
        if message.get("role") != "user":
            continue
        parts = message.get("parts")
        if parts is None and isinstance(message.get("content"), str):
            parts = [{"type": "text", "text": message["content"]}]
        if not isinstance(parts, list):
            raise RequestError(400, "invalid_body", "A user message has `parts` or `content`.")
        valid = [part for part in map(_part, parts) if part is not None]
        if not any(part["type"] == "file" or part["text"].strip() for part in valid):
            message_ = "The last user message in `messages` has neither text nor file."
            raise RequestError(400, "invalid_body", message_)
        given = message.get("id")
        id = given if isinstance(given, str) and 0 < len(given) <= 128 else new_id("u")
        return {"id": id, "role": "user", "parts": valid}
    raise RequestError(400, "invalid_body", "There is no user message in `messages`.")


def _part(part: Any) -> dict[str, str] | None:
    if not isinstance(part, dict):
        raise RequestError(400, "invalid_body", "Each of a message's `parts` is an object.")
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if part.get("type") == "file":
        url, media_type = part.get("url"), part.get("mediaType")
        kinds = (*KINDS, *FILES)
        if media_type not in kinds or not isinstance(url, str) or not _is_data(url):
            message = f"A file part is a data: URL in base64 of one of {', '.join(kinds)}."
            raise RequestError(400, "invalid_body", message)
        if media_type in FILES:
            _check_file(media_type, url.partition(",")[2])
            url = f"data:{media_type};base64,{url.partition(',')[2]}"
        if media_type in KINDS and len(url) > MAX_IMAGE_CHARS:
            message = "A picture is too large: at most 20 MB in base64. Send it smaller."
            raise RequestError(413, "too_large", message)
        name = part.get("filename")
        named = {"filename": name[:MAX_NAME_CHARS]} if isinstance(name, str) else {}
        return {"type": "file", "mediaType": media_type, "url": url, **named}
    return None


def _check_file(media_type: str, data: str) -> None:
    """Raises RequestError if the file is too large, or does not match its type."""
    expected = media_type == PDF
    if len(data) > (MOST_PDF_CHARACTERS if expected else MAX_TEXT_CHARS):
        most = "10 MB for a PDF" if expected else "5 MB for a file of text"
        message = f"The file is too large: at most {most}. Upload it and read it in a cell."
        raise RequestError(413, "too_large", message)
    if expected != is_pdf(data) or not (expected or is_text(base64.b64decode(data))):
        message = f"The content of a file is not {media_type}, as its `mediaType` says."
        raise RequestError(400, "invalid_body", message)


def _is_data(url: str) -> bool:
    head, _, data = url.partition(",")
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        return False
    return head.startswith("data:") and head.endswith(";base64")
