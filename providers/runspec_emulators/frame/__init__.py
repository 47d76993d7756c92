"""What all emulators share: HTTP servers on loopback, faults on request, settings, timers and processes.

Nothing here knows a service.
"""
