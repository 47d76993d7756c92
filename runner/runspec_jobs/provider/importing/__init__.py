"""What importers of other tools' files share: reading YAML and JSON with lines, what is lost, and writing specs."""
