// @platformatic/kafka.
import {
  Admin,
  ConfigResourceTypes,
  Consumer,
  FetchIsolationLevels,
  IncrementalAlterConfigOperationTypes,
  MessagesStreamFallbackModes,
  MessagesStreamModes,
  Producer,
  stringDeserializers,
  stringSerializers
} from '@platformatic/kafka'
import { messages, Refused, run, script, tlsOf, within } from './program.mjs'

const asked = script()
const { sasl } = asked.connection
const settings = {
  clientId: 'platformatic',
  bootstrapBrokers: [asked.connection.bootstrap],
  tls: tlsOf(asked.connection),
  retries: 10,
  ...(sasl === null
    ? {}
    : {
        sasl: sasl.mechanism === 'OAUTHBEARER'
          ? { mechanism: sasl.mechanism, token: sasl.token }
          : { mechanism: sasl.mechanism, username: sasl.user, password: sasl.password }
      })
}

// The error of Kafka's, however deep it lies, by its name.
function named (error) {
  for (const each of [error, ...(error.errors ?? [])]) {
    if (each.apiId !== undefined) return new Refused(each.apiId, each.message)
  }
  const below = (error.errors ?? [])[0] ?? error.cause
  return below ? named(below) : error
}

async function using (client, what) {
  try {
    return await what(client)
  } catch (error) {
    throw named(error)
  } finally {
    await (client instanceof Admin ? client.close() : client.close(true)).catch(() => {}) // what failed has been told
  }
}

const administer = what => using(new Admin(settings), what)
const resource = topic => ({ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic })

function producing (step, own, what) {
  return using(new Producer({ ...settings, serializers: stringSerializers, compression: step.codec, ...own }), what)
}

const batch = step => ({ messages: messages(step).map(one => ({ topic: step.topic, ...one })), acks: -1 })

const steps = {
  create: ({ topic, partitions, configs }) => administer(async admin => {
    const entries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await admin.createTopics({ topics: [topic], partitions, replicas: -1, configs: entries })
  }),
  describe: ({ topic }) => administer(async admin => {
    const { topics } = await admin.metadata({ topics: [topic] })
    return { partitions: topics.get(topic).partitionsCount }
  }),
  describe_configs: ({ topic, names }) => administer(async admin => {
    const [told] = await admin.describeConfigs({ resources: [{ ...resource(topic), configurationKeys: names }] })
    return Object.fromEntries(told.configs.map(one => [one.name, one.value]))
  }),
  alter_configs: ({ topic, configs }) => administer(async admin => {
    const changes = Object.entries(configs).map(([name, value]) => ({
      name,
      value,
      configOperation: IncrementalAlterConfigOperationTypes.SET
    }))
    await admin.incrementalAlterConfigs({ resources: [{ ...resource(topic), configs: changes }] })
  }),
  delete: ({ topic }) => administer(async admin => { await admin.deleteTopics({ topics: [topic] }) }),
  produce: step => producing(step, { idempotent: true }, async producer => { await producer.send(batch(step)) }),
  transaction: step => producing(step, { idempotent: true, transactionalId: step.transactional_id }, async producer => {
    const transaction = await producer.beginTransaction()
    await transaction.send(batch(step))
    await (step.end === 'commit' ? transaction.commit() : transaction.abort())
  }),
  consume: step => taken(step, step.group, 'read_committed'),
  // It has no way to read but in a group.
  read: step => taken(step, `reads-${process.pid}`, step.isolation)
}

function taken (step, groupId, isolation) {
  const level = { read_committed: FetchIsolationLevels.READ_COMMITTED, read_uncommitted: FetchIsolationLevels.READ_UNCOMMITTED }
  const own = { groupId, deserializers: stringDeserializers, isolationLevel: level[isolation], autocommit: false }
  return using(new Consumer({ ...settings, ...own }), async consumer => {
    const records = []
    const epochs = new Map()
    const stream = await consumer.consume({
      topics: [step.topic],
      mode: MessagesStreamModes.COMMITTED,
      fallbackMode: MessagesStreamFallbackModes.EARLIEST
    })
    const enough = (async () => {
      for await (const { partition, offset, key, value, headers, leaderEpoch } of stream) {
        records.push([partition, Number(offset), key, value, headers.get('codec') ?? ''])
        epochs.set(partition, { offset: offset + 1n, leaderEpoch })
        if (records.length === step.count) return
      }
    })()
    await within(enough, () => `${records.length} records came`)
    const offsets = [...epochs].map(([partition, end]) => ({ topic: step.topic, partition, ...end }))
    await consumer.commit({ offsets })
    return { records }
  })
}

await run(steps, asked)
