"""Discovery of a subscription: its Batch account, VM sizes and quotas."""
