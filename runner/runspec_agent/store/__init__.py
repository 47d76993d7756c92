"""The store of a run: S3, Azure Blob Storage, or a shared folder."""
