"""Plugs that come with the product: each folder can be left out, since no other code imports it."""
