"""Draws the pages of `report --html`."""
