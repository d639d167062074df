"""How a command ends other than well: one sentence on stderr, and the exit code of the contract."""

from typing import Final

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


class CommandError(Exception):
    """The sentence a person reads, and the exit code."""

    def __init__(self, sentence: str, code: int = EXIT_FAILED) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code


def usage(sentence: str) -> CommandError:
    """Wrong usage: exit code 2."""
    return CommandError(sentence, EXIT_USAGE)
