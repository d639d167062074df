// What the programs of Node have in common: the loop over the steps of a script, as tests/clients/contract.py has it.
import { readFileSync } from 'node:fs'

export const TIMEOUT_MS = 30_000
const PADDING = 'x'.repeat(100)

export class Lacks extends Error {}

export class Refused extends Error {
  constructor (name, text) {
    super(text)
    this.kafka = name
  }
}

export function script () {
  return JSON.parse(readFileSync(0, 'utf8'))
}

export function tlsOf ({ tls }) {
  if (tls === null) return undefined
  const read = path => readFileSync(path, 'utf8')
  return { ca: read(tls.ca), ...(tls.certificate === null ? {} : { cert: read(tls.certificate), key: read(tls.key) }) }
}

export function messages (step) {
  return Array.from({ length: step.count }, (_, number) => ({
    partition: number % step.partitions,
    key: `k${number}`,
    value: `${step.prefix}-${number}-${PADDING}`,
    headers: { codec: step.codec }
  }))
}

// What comes first of a promise and the time that a step has.
export function within (promise, what) {
  let timer
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what()} within ${TIMEOUT_MS} ms`)), TIMEOUT_MS)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

async function told (steps, step) {
  const lacks = steps[step.do] === undefined
  try {
    return lacks ? { lacks: step.do } : { result: (await steps[step.do](step)) ?? null }
  } catch (error) {
    if (error instanceof Lacks) return { lacks: error.message }
    if (error instanceof Refused) return { error: error.kafka, text: error.message }
    return { error: error.name, text: error.message }
  }
}

export async function run (steps, asked) {
  for (const step of asked.steps) {
    const line = await told(steps, step)
    await new Promise(resolve => process.stdout.write(JSON.stringify(line) + '\n', resolve))
  }
  process.exit(0)
}
