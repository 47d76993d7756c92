"""The formats of what `--json` prints, as models, and their JSON Schemas.

The models only describe, so printing does not import them. A field may be added to a format. No field is renamed or
removed.
"""
