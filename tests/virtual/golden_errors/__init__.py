"""CUDA's error messages as they are known to be: one row for each mistake, with its source."""
