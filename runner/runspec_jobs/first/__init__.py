"""What a first spec says: for no program in particular, or for one that is there."""
