"""What a job uses of its machine: processors, memory, disk and GPUs."""
