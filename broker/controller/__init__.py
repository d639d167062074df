"""The controller decides which broker leads which partition: a pure core (`core.py`), a thin shell."""
