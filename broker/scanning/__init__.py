"""Looking into the records of clients away from the event loop: in a process beside the broker, in turns."""
