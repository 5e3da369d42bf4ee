"""Models that answer from a script, for tests here and in projects that use this one."""

from jupyter_agent.testing.model import ScriptedModel
from jupyter_agent.testing.rules import Refused, check_messages, check_request
from jupyter_agent.testing.script import Scripted, calls, says, thinks
from jupyter_agent.testing.server import FakeAnthropic, in_thread

__all__ = [
    "FakeAnthropic",
    "Refused",
    "Scripted",
    "ScriptedModel",
    "calls",
    "check_messages",
    "check_request",
    "in_thread",
    "says",
    "thinks",
]
