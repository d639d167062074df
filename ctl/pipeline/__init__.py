"""What surrounds a pipeline job on the command line: the session, progress bars, the console."""
