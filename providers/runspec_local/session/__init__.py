"""The programs that local jobs run with: container engines, uv, and Python interpreters."""
