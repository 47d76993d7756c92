"""The Blob container of a profile, and the volumes that Batch AI mounts."""
