"""The virtual GPU: runs an unmodified CUDA training script on a machine that has no GPU, and writes a Recording."""
