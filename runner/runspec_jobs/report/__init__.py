"""Reports of runs: metrics, rankings, scaling laws, tables, and pages. Nothing here touches a file."""
