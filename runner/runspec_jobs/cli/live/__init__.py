"""What is shown while a command works: progress, logs, and the live area at the bottom of a terminal."""
