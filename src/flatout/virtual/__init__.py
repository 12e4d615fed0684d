"""The virtual GPU: runs a script on a GPU that is not here and writes a Recording."""
