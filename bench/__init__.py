"""How fast and how small runspec is, each figure beside the tool that does the same."""
