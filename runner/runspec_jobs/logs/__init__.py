"""Following, saving, and measuring what jobs print."""
