"""What a local job needs before it starts: images and Python environments."""
