"""The log: partitions as directories of segments in Kafka's on-disk format.

`LogManager` owns the log directories, `PartitionLog` one partition. Neither waits, reads a clock or knows
asyncio; what may block for long (fdatasync, checkpoints, removal of deleted topics) is handed out as jobs
with a `run()` that any thread may call. Pure: `config`, `errors`, `validation`, `offset_index`,
`time_index`, `txn_index`, `producer_state`, `producer_snapshot`, `transactions`, `verification`,
`epoch_cache`, `retention`, `checkpoint_text`.
"""
