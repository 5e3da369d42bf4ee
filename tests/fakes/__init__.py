"""Models and strict services that answer from a script."""

from tests.fakes.model import ScriptedModel
from tests.fakes.rules import Refused, check_messages, check_request
from tests.fakes.script import Scripted, calls, says, thinks
from tests.fakes.server import FakeAnthropic, in_thread

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
