"""What an operator may set about transactions. Kafka's names with our units last."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Settings of the transaction coordinator; all of them need a restart."""

    timeout_max_ms: int = 900_000
    """`transaction.max.timeout.ms`: a longer transaction.timeout.ms is INVALID_TRANSACTION_TIMEOUT. An open
    transaction holds readers back for as long."""

    id_expiration_ms: int = 7 * 24 * 3_600_000
    """`transactional.id.expiration.ms`: an id that has not been used for so long is forgotten."""

    ids_per_instance_max: int = 5_000
    """Transactional ids of one instance, so that random ones cannot fill the memory all share. Does not bind
    ids without an instance: a standalone Kafka's."""

    retry_ms: int = 200
    """How long to wait before the end of a transaction is written again after the log refused it."""

    def faults(self) -> list[str]:
        """Every cross-field rule that does not hold, one sentence each."""
        found = []
        if self.timeout_max_ms <= 0:
            found.append("the greatest transaction timeout must be above 0")
        if self.id_expiration_ms <= 0:
            found.append("transactional ids must be kept for some time")
        return found
