"""Kinds of providers beyond Messages and chat completions."""
