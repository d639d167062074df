// kafkajs. Codecs but gzip are packages of others, as its documentation says.
import zlib from 'node:zlib'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import { compressFrameSync, decompressFrameSync } from 'lz4-napi'
import { messages, Refused, run, script, tlsOf, within } from './program.mjs'

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, CompressionCodecs, CompressionTypes } = kafkajs
const { ConfigResourceTypes, Kafka, logLevel, ResourcePatternTypes } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => compressFrameSync(encoder.buffer),
  decompress: async buffer => decompressFrameSync(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zlib.zstdCompressSync(encoder.buffer),
  decompress: async buffer => zlib.zstdDecompressSync(buffer)
})
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}

const asked = script()

function login ({ sasl }) {
  if (sasl === null) return undefined
  const mechanism = sasl.mechanism.toLowerCase()
  if (mechanism === 'oauthbearer') return { mechanism, oauthBearerProvider: async () => ({ value: sasl.token }) }
  return { mechanism, username: sasl.user, password: sasl.password }
}

const kafka = new Kafka({
  brokers: [asked.connection.bootstrap],
  ssl: tlsOf(asked.connection),
  sasl: login(asked.connection),
  logLevel: logLevel.NOTHING,
  retry: { retries: 8 }
})

// The error of Kafka's, however deep it lies, by its name.
function named (error) {
  for (let each = error; each; each = each.cause ?? each.originalError) {
    if (each.errors?.length) return named(each.errors[0])
    if (each.type !== undefined && each.code !== undefined) return new Refused(each.type, each.message)
    if (each.name === 'KafkaJSSASLAuthenticationError') return new Refused('SASL_AUTHENTICATION_FAILED', each.message)
  }
  return error
}

async function using (client, what) {
  try {
    await client.connect()
    return await what(client)
  } catch (error) {
    throw named(error)
  } finally {
    await client.disconnect()
  }
}

const administer = what => using(kafka.admin(), what)

const steps = {
  create: ({ topic, partitions, configs }) => administer(async admin => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    // Where it waits for leaders it gives up when a broker has not heard of the topic yet.
    await admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: partitions, replicationFactor: -1, configEntries }] })
  }),
  describe: ({ topic }) => administer(async admin => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return { partitions: topics[0].partitions.length }
  }),
  describe_configs: ({ topic, names }) => administer(async admin => {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: names }
    const told = await admin.describeConfigs({ resources: [resource], includeSynonyms: false })
    const entries = told.resources[0].configEntries.filter(one => names.includes(one.configName))
    return Object.fromEntries(entries.map(one => [one.configName, one.configValue]))
  }),
  alter_configs: ({ topic, configs }) => administer(async admin => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
  }),
  delete: ({ topic }) => administer(async admin => { await admin.deleteTopics({ topics: [topic] }) }),
  create_acl: ({ type, name, principal, operation }) => administer(async admin => {
    await admin.createAcls({
      acl: [{
        resourceType: AclResourceTypes[type],
        resourceName: name,
        resourcePatternType: ResourcePatternTypes.LITERAL,
        principal,
        host: '*',
        operation: AclOperationTypes[operation],
        permissionType: AclPermissionTypes.ALLOW
      }]
    })
  }),
  produce: step => using(kafka.producer({ allowAutoTopicCreation: false }), async producer => {
    await producer.send({ topic: step.topic, acks: -1, compression: CODECS[step.codec], messages: messages(step) })
  }),
  transaction: step => {
    const own = { transactionalId: step.transactional_id, maxInFlightRequests: 1, idempotent: true }
    return using(kafka.producer({ allowAutoTopicCreation: false, ...own }), async producer => {
      const transaction = await producer.transaction()
      await transaction.send({ topic: step.topic, compression: CODECS[step.codec], messages: messages(step) })
      await (step.end === 'commit' ? transaction.commit() : transaction.abort())
    })
  },
  consume: step => taken(step, step.group, false),
  // It has no way to read but in a group.
  read: step => taken(step, `reads-${process.pid}`, step.isolation === 'read_uncommitted')
}

async function taken (step, groupId, readUncommitted) {
  const consumer = kafka.consumer({ groupId, readUncommitted, allowAutoTopicCreation: false })
  const records = []
  return using(consumer, async () => {
    await consumer.subscribe({ topics: [step.topic], fromBeginning: true })
    const enough = new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition, message: { offset, key, value, headers } }) => {
          if (records.length < step.count) {
            records.push([partition, Number(offset), key.toString(), value.toString(), (headers.codec ?? '').toString()])
          }
          if (records.length >= step.count) resolve()
        }
      }).catch(reject)
    })
    await within(enough, () => `${records.length} records came`)
    const ends = new Map(records.map(([partition, offset]) => [partition, offset + 1]))
    await consumer.commitOffsets([...ends].map(([partition, end]) => ({ topic: step.topic, partition, offset: String(end) })))
    return { records }
  })
}

await run(steps, asked)
