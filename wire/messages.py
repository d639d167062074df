"""Types of Kafka's messages, whichever version: for the checker alone, which reads `messages.pyi`.

What handlers get is kio's class of the client's version, loaded when the first client speaks it: loading all
would take a second. So at run time a name here stands for any object.
"""


def __getattr__(_name: str) -> type[object]:
    return object
