"""What the account holds: pools and images, and its side of the Resource Manager."""
