"""Works in the rooms in which jupyter-collaboration keeps open notebooks."""
