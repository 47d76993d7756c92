"""Reports of runs: metrics, rankings, scaling laws, tables and pages. The modules read and write no files."""
