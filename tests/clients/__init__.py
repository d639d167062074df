"""Standard clients, each a small program of its own language behind one contract: `contract.py` has it."""
