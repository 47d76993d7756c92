"""What a subscription says of itself: accounts, VM sizes, and quotas."""
