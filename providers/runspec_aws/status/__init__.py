"""How jobs stand, polled from AWS Batch."""
