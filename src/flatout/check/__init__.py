"""`flatout check`: the GPU mistakes that can be seen in source. One rule a file; nothing here loads torch."""
