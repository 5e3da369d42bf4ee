"""The rows of the table of performance, by their numbers."""
