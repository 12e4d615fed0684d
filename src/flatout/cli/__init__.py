"""The command line: one file a command. Arguments and exit codes, nothing else."""
