"""AWS SDK clients, and the partition of a region."""
