"""Sentences on how code ended, for readers of a run."""

BREAK = "The connection to the kernel broke"
RESTART = "The Jupyter server was restarted in the meantime"
BROKE = (
    f"{BREAK}: how the code ended is unknown, outputs are missing, and "
    "it may still be running. The next run connects again."
)
ENDED_UNHEARD = (
    "{why}, and the code ended before we reconnected: how it ended is unknown, outputs are missing."
)
NEVER_STARTED = "The code never started."
UNANSWERED = "The kernel did not say how far the code got: it may never have started."
LOST_REPLY = "The kernel's reply was lost; how it ended is taken from its outputs."
NO_REPLY = (
    "The kernel became idle without saying how the code ended: someone interrupted it as it "
    "started or ended, or the kernel's reply was lost."
)
UNSAID = "The kernel does not say how the code ended."
DROPPED = "The kernel dropped the code because code before it failed. It did not run."
INTERRUPTED_AHEAD = "Someone interrupted the code before it in the kernel. It did not run."
MISSING_OUTPUTS = "{why}: outputs may be missing."
LOST_MESSAGES = (
    "Messages of the kernel are missing, probably because they came faster than this machine took "
    "them: outputs may be missing."
)
ENDED_ALL_THE_SAME = (
    "The code was interrupted and ended without an error, as `!` commands do: it may be incomplete."
)
BY_SOMEONE = "Someone else interrupted it."
MAYBE_BY_SOMEONE = "Someone else interrupted it, or the code raised the error itself."
EXITED = "The code asked the kernel to exit: its variables are gone. The next run has a new kernel."
PROPOSED = "The code proposes a cell, as `%load` does; it was not inserted."
LOST_OUTPUTS = "Some outputs could not be shown because of an internal error; see the server's log."
