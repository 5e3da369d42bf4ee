"""Runs copies of notebooks from the top in fresh kernels, and compares the outputs."""
