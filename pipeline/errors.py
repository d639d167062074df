"""What goes wrong in a job, in one sentence for the person who started it."""


class PipelineError(Exception):
    """A job cannot go on; the sentence says why and what to do."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
