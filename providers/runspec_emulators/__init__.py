"""Emulators of cloud services on this machine, so that everything can be rehearsed without one.

They are written from the services' documentation, not from any client. They know no provider.
"""
