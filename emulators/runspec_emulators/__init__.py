"""Emulators of services on this machine, for `runspec rehearse` and for tests.

They are written from the documentation of the services, not from any client, and import no provider.
"""
