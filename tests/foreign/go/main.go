// Command foreign drives an instance with Go clients: franz-go and sarama.
// It prints one line per promise and exits with 1 at the first broken one.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 1000

func must(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func expect(holds bool, what string, arguments ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, what+"\n", arguments...)
		os.Exit(1)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	address := os.Args[1]
	franz(ctx, address)
	saramaClient(address)
}

// franz produces with every codec, idempotent as it is by default, and consumes in a group.
func franz(ctx context.Context, address string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	must(err, "franz-go client")
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, 3, -1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, "franz")
	must(err, "create topic")
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		producer, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ProducerBatchCompression(codec))
		must(err, name)
		for number := 0; number < records; number++ {
			value := fmt.Sprintf("%s-%d", name, number)
			producer.Produce(ctx, &kgo.Record{
				Topic: "franz", Key: []byte(value), Value: []byte(value),
				Headers: []kgo.RecordHeader{{Key: "codec", Value: []byte(name)}},
			}, func(_ *kgo.Record, err error) { must(err, "produce "+name) })
		}
		must(producer.Flush(ctx), "flush "+name)
		producer.Close()
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumerGroup("franz"), kgo.ConsumeTopics("franz"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(err, "consumer")
	seen := map[string]bool{}
	for len(seen) < 5*records {
		fetches := consumer.PollFetches(ctx)
		must(fetches.Err(), "fetch")
		fetches.EachRecord(func(record *kgo.Record) {
			expect(!seen[string(record.Value)], "%s came twice", record.Value)
			expect(len(record.Headers) == 1, "%s lost its header", record.Value)
			seen[string(record.Value)] = true
		})
	}
	must(consumer.CommitUncommittedOffsets(ctx), "commit")
	consumer.Close()
	lags, err := admin.Lag(ctx, "franz")
	must(err, "lag")
	lag := lags["franz"].Lag.Total()
	expect(lag == 0, "the group lags by %d", lag)
	fmt.Println("franz-go: 5 codecs, a group, no lag")
}

// saramaClient speaks the versions of Kafka 2.8, which sarama before 1.46 sends without asking.
func saramaClient(address string) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	admin, err := sarama.NewClusterAdmin([]string{address}, config)
	must(err, "sarama admin")
	must(admin.CreateTopic("sarama", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false), "create")
	producer, err := sarama.NewSyncProducer([]string{address}, config)
	must(err, "sarama producer")
	for number := 0; number < records; number++ {
		value := sarama.StringEncoder(fmt.Sprint(number))
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "sarama", Value: value})
		must(err, "send")
		expect(offset == int64(number), "record %d got offset %d", number, offset)
	}
	consumer, err := sarama.NewConsumer([]string{address}, config)
	must(err, "sarama consumer")
	partition, err := consumer.ConsumePartition("sarama", 0, sarama.OffsetOldest)
	must(err, "consume")
	for number := 0; number < records; number++ {
		message := <-partition.Messages()
		expect(string(message.Value) == fmt.Sprint(number), "%s instead of %d", message.Value, number)
	}
	must(admin.DeleteTopic("sarama"), "delete")
	fmt.Println("sarama: in order, every offset")
}
