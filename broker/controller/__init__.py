"""The controller: which broker leads which partition. A pure core (`core.py`) in a thin shell (`shell.py`)."""
