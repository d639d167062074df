// A member of a consumer group, of @platformatic/kafka, that tells what it read and what it committed, a line each:
// `read PARTITION OFFSET NANOSECONDS`, `committed PARTITION OFFSET NANOSECONDS`. Arguments: bootstrap server, group,
// topic. It leaves when it is told to end.
//
// The client hands out what it had fetched also when the partition has been taken away meanwhile, or when it has just
// come back and others have read on: what a careful program passes over.
import { Consumer } from '@platformatic/kafka'

const [bootstrap, groupId, topic] = process.argv.slice(2)
const tell = (what, partition, offset) => console.log(what, partition, String(offset), String(BigInt(Date.now()) * 1_000_000n))
const consumer = new Consumer({
  clientId: 'portico-member',
  groupId,
  bootstrapBrokers: [bootstrap],
  groupProtocol: 'consumer',
  maxWaitTime: 200,
  retries: 20
})
const stream = await consumer.consume({ topics: [topic], autocommit: false, mode: 'committed', fallbackMode: 'earliest' })

const owned = () => new Set(consumer.assignments?.find(one => one.topic === topic)?.partitions)
let known = new Set() // partitions whose committed offsets have been asked for since they were given
stream.on('offsets', () => { known = owned() })
process.on('SIGTERM', async () => {
  await stream.close()
  await consumer.close(true)
  process.exit(0)
})

for await (const { partition, offset, commit } of stream) {
  const now = owned()
  known = new Set([...known].filter(one => now.has(one)))
  const committed = stream.offsetsCommitted.get(`${topic}:${partition}`) ?? -1n
  if (!known.has(partition) || offset < committed) continue
  tell('read', partition, offset)
  try {
    await commit()
    tell('committed', partition, offset + 1n)
  } catch (error) {
    console.error('not committed:', error.message, error.errors?.map(one => one.message))
  }
}
