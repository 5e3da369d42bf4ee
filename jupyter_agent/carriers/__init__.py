"""Where a notebook's live document is: on an open browser tab, or nowhere but in its file."""

from jupyter_agent.carriers.registry import Notebooks, WhileAway
from jupyter_agent.carriers.tab_link import TabLink, Tabs
from jupyter_agent.document.carrier import Carrier, Place, Saved

__all__ = ["Carrier", "Notebooks", "Place", "Saved", "TabLink", "Tabs", "WhileAway"]
