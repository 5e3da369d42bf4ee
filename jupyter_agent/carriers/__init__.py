"""Where a notebook's live document is: in an open browser tab, in a collaboration room, or only in
its file.
"""
