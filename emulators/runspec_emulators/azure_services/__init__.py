"""Emulators for the services of Azure, on the loopback interface of this machine."""
