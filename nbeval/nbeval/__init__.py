"""Whether an assistant is useful in a live notebook that a person shares with it, and harmless."""
