"""Where a notebook's live document is: on an open browser tab, or nowhere but in its file."""

from jupyter_agent.notebook.carriers.base import Carrier, Place, Saved
from jupyter_agent.notebook.carriers.choose import Notebooks
from jupyter_agent.notebook.carriers.tab import TabLink, Tabs

__all__ = ["Carrier", "Notebooks", "Place", "Saved", "TabLink", "Tabs"]
