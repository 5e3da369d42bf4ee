"""What all response models share. They are for `openapi.json`: clients may rely on these fields;
more may be added.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class AnswerModel(BaseModel):
    """Fields without a default are in every answer, the others only if they apply."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class MessageAnswer(AnswerModel):
    """A JSON-RPC message."""

    jsonrpc: Literal["2.0"]


class DescriptionAnswer(AnswerModel):
    """The OpenAPI description."""

    openapi: str
    paths: dict[str, Any]
