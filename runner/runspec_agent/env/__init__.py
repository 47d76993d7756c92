"""What a program finds in its environment, and the address of its node."""
