"""Checks of an account before anything is created."""
