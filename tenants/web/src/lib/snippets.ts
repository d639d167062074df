// Ready-to-run programs for an instance and one of its topics; they say what went wrong.

export interface Snippet {
  id: string;
  label: string;
  install: string;
  code: string;
}

export function snippetsFor(bootstrap: string, topic: string): Snippet[] {
  return [
    {
      id: 'librdkafka',
      label: 'Python (librdkafka)',
      install: 'pip install confluent-kafka',
      code: `from confluent_kafka import Consumer, Producer

def delivered(error, message):
    print(error or f"delivered to {message.topic()}, offset {message.offset()}")

producer = Producer({"bootstrap.servers": "${bootstrap}", "message.timeout.ms": 10_000})
producer.produce("${topic}", key="k1", value="hello", on_delivery=delivered)
producer.flush()

consumer = Consumer({
    "bootstrap.servers": "${bootstrap}",
    "group.id": "my-group",
    "auto.offset.reset": "earliest",
})
consumer.subscribe(["${topic}"])
while True:
    message = consumer.poll(1.0)
    if message is not None:
        print(message.error() or (message.key(), message.value()), flush=True)`,
    },
    {
      id: 'java',
      label: 'Java',
      install: 'org.apache.kafka:kafka-clients',
      code: `var settings = new Properties();
settings.put("bootstrap.servers", "${bootstrap}");
settings.put("key.serializer", StringSerializer.class.getName());
settings.put("value.serializer", StringSerializer.class.getName());
try (var producer = new KafkaProducer<String, String>(settings)) {
    producer.send(new ProducerRecord<>("${topic}", "k1", "hello")).get();
}

settings.put("group.id", "my-group");
settings.put("auto.offset.reset", "earliest");
settings.put("key.deserializer", StringDeserializer.class.getName());
settings.put("value.deserializer", StringDeserializer.class.getName());
try (var consumer = new KafkaConsumer<String, String>(settings)) {
    consumer.subscribe(List.of("${topic}"));
    while (true) {
        consumer.poll(Duration.ofSeconds(1))
            .forEach(record -> System.out.println(record.value()));
    }
}`,
    },
    {
      id: 'go',
      label: 'Go (franz-go)',
      install: 'go get github.com/twmb/franz-go/pkg/kgo',
      code: `client, err := kgo.NewClient(
	kgo.SeedBrokers("${bootstrap}"),
	kgo.ConsumerGroup("my-group"),
	kgo.ConsumeTopics("${topic}"),
)
if err != nil {
	log.Fatal(err)
}
defer client.Close()

record := &kgo.Record{Topic: "${topic}", Value: []byte("hello")}
if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
	log.Fatal(err)
}
for {
	fetches := client.PollFetches(ctx)
	fetches.EachError(func(topic string, _ int32, err error) { log.Println(topic, err) })
	fetches.EachRecord(func(r *kgo.Record) { fmt.Println(string(r.Value)) })
}`,
    },
    {
      id: 'kafka-python',
      label: 'kafka-python',
      install: 'pip install kafka-python',
      code: `from kafka import KafkaConsumer, KafkaProducer

producer = KafkaProducer(bootstrap_servers="${bootstrap}")
delivered = producer.send("${topic}", key=b"k1", value=b"hello").get(timeout=10)
print("delivered to offset", delivered.offset)

consumer = KafkaConsumer(
    "${topic}",
    bootstrap_servers="${bootstrap}",
    group_id="my-group",
    auto_offset_reset="earliest",
)
for record in consumer:
    print(record.key, record.value)`,
    },
    {
      id: 'kcat',
      label: 'kcat (shell)',
      install: 'apt install kcat',
      code: `echo hello | kcat -b ${bootstrap} -P -t ${topic}
kcat -b ${bootstrap} -G my-group ${topic}`,
    },
  ];
}
