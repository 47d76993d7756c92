"""The parts that all emulators share: HTTP servers on loopback, injected faults, settings, timers and processes.

No module here is about one service.
"""
