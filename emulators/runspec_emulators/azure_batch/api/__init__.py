"""The operations of the service: what each may be sent, and how it responds."""
