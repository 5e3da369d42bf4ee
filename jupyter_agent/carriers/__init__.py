"""Where a notebook's live document is: on an open browser tab, or nowhere but in its file."""
