"""Whether structures assert after every change what must be true of them, also where that takes a walk.

On in tests, and so in the simulation; off where processes serve. What costs a comparison is always asserted.
"""

are_checked = False
