// Ready-to-run programs for an instance: nothing but the address is needed.

export interface Snippet {
  id: string;
  label: string;
  install: string;
  code: string;
}

export function snippetsFor(bootstrap: string): Snippet[] {
  return [
    {
      id: 'librdkafka',
      label: 'Python (librdkafka)',
      install: 'pip install confluent-kafka',
      code: `from confluent_kafka import Consumer, Producer

producer = Producer({"bootstrap.servers": "${bootstrap}"})
producer.produce("my-topic", key="k1", value="hello")
producer.flush()

consumer = Consumer({
    "bootstrap.servers": "${bootstrap}",
    "group.id": "my-group",
    "auto.offset.reset": "earliest",
})
consumer.subscribe(["my-topic"])
while True:
    message = consumer.poll(1.0)
    if message is not None and message.error() is None:
        print(message.key(), message.value())`,
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
    producer.send(new ProducerRecord<>("my-topic", "k1", "hello")).get();
}

settings.put("group.id", "my-group");
settings.put("auto.offset.reset", "earliest");
settings.put("key.deserializer", StringDeserializer.class.getName());
settings.put("value.deserializer", StringDeserializer.class.getName());
try (var consumer = new KafkaConsumer<String, String>(settings)) {
    consumer.subscribe(List.of("my-topic"));
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
	kgo.ConsumeTopics("my-topic"),
)
if err != nil {
	log.Fatal(err)
}
defer client.Close()

record := &kgo.Record{Topic: "my-topic", Value: []byte("hello")}
if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
	log.Fatal(err)
}
for {
	client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		fmt.Println(string(r.Value))
	})
}`,
    },
    {
      id: 'kafka-python',
      label: 'kafka-python',
      install: 'pip install kafka-python',
      code: `from kafka import KafkaConsumer, KafkaProducer

producer = KafkaProducer(bootstrap_servers="${bootstrap}")
producer.send("my-topic", key=b"k1", value=b"hello").get(timeout=10)

consumer = KafkaConsumer(
    "my-topic",
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
      code: `echo hello | kcat -b ${bootstrap} -P -t my-topic
kcat -b ${bootstrap} -G my-group my-topic`,
    },
  ];
}
