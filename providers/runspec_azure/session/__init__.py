"""Azure SDK clients, clouds, and logins."""
