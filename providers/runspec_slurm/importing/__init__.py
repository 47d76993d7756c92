"""Import of batch scripts: `sbatch_header` reads the options, `batch_script` the body, `conversion` writes the spec."""
