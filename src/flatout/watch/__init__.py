"""A real run, watched: hooks in the script's process that write a Recording. `flatout.watch.run` starts it."""
