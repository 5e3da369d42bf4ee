"""Values of settings that users, administrators and requests choose from."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Mode: TypeAlias = Literal["read", "ask", "edit", "auto"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""From the strictest to the most permissive."""

Share: TypeAlias = Literal["all", "no-outputs", "code-only"]
SHARES: tuple[Share, ...] = get_args(Share)
"""How much of a notebook models see, from most to least."""

WhileAway: TypeAlias = Literal["wait", "write"]
"""What happens to edits while a tab with unsaved work is away."""
