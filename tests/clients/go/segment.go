package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

var segmentCodecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

type kafkaGo struct{ where connection }

func segment(where connection) client {
	by := kafkaGo{where}
	return client{
		"create": by.create, "describe": by.describe, "describe_configs": by.describeConfigs,
		"alter_configs": by.alterConfigs, "delete": by.delete, "produce": by.produce,
		"consume": by.consume, "read": by.read,
	}
}

func (by kafkaGo) mechanism() (sasl.Mechanism, error) {
	login := by.where.Sasl
	switch {
	case login == nil:
		return nil, nil
	case login.Mechanism == "PLAIN":
		return plain.Mechanism{Username: login.User, Password: login.Password}, nil
	case login.Mechanism == "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, login.User, login.Password)
	case login.Mechanism == "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, login.User, login.Password)
	}
	return nil, lacks(login.Mechanism)
}

func (by kafkaGo) transport() (*kafka.Transport, error) {
	mechanism, err := by.mechanism()
	return &kafka.Transport{TLS: by.where.encrypted(), SASL: mechanism}, err
}

func (by kafkaGo) admin() (*kafka.Client, error) {
	transport, err := by.transport()
	return &kafka.Client{Addr: kafka.TCP(by.where.Bootstrap), Transport: transport, Timeout: timeout}, err
}

func (by kafkaGo) create(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	topic := kafka.TopicConfig{Topic: asked.Topic, NumPartitions: asked.Partitions, ReplicationFactor: -1}
	for name, value := range asked.Configs {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	told, err := admin.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil {
		return nil, err
	}
	return nil, told.Errors[asked.Topic]
}

func (by kafkaGo) describe(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	told, err := admin.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{asked.Topic}})
	if err != nil {
		return nil, err
	}
	return map[string]int{"partitions": len(told.Topics[0].Partitions)}, told.Topics[0].Error
}

func (by kafkaGo) describeConfigs(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	told, err := admin.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: asked.Topic, ConfigNames: asked.Names},
	}})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, each := range told.Resources[0].ConfigEntries {
		found[each.ConfigName] = each.ConfigValue
	}
	return found, told.Resources[0].Error
}

func (by kafkaGo) alterConfigs(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: asked.Topic}
	for name, value := range asked.Configs {
		resource.Configs = append(resource.Configs, kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet,
		})
	}
	told, err := admin.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
	})
	if err != nil {
		return nil, err
	}
	return nil, told.Resources[0].Error
}

func (by kafkaGo) delete(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	told, err := admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{asked.Topic}})
	if err != nil {
		return nil, err
	}
	return nil, told.Errors[asked.Topic]
}

// byNumber puts a record where its key says: this client takes no partition from its user.
func byNumber(message kafka.Message, partitions ...int) int {
	number := 0
	fmt.Sscanf(string(message.Key), "k%d", &number)
	return partitions[number%len(partitions)]
}

func (by kafkaGo) produce(ctx context.Context, asked step) (any, error) {
	transport, err := by.transport()
	if err != nil {
		return nil, err
	}
	writer := &kafka.Writer{
		Addr: kafka.TCP(by.where.Bootstrap), Topic: asked.Topic, Balancer: kafka.BalancerFunc(byNumber),
		RequiredAcks: kafka.RequireAll, Compression: segmentCodecs[asked.Codec], Transport: transport,
	}
	messages := []kafka.Message{}
	for number := 0; number < asked.Count; number++ {
		messages = append(messages, kafka.Message{
			Key: []byte(key(number)), Value: []byte(asked.value(number)),
			Headers: []kafka.Header{{Key: "codec", Value: []byte(asked.Codec)}},
		})
	}
	return nil, errors.Join(writer.WriteMessages(ctx, messages...), writer.Close())
}

func (by kafkaGo) config(asked step) (kafka.ReaderConfig, error) {
	mechanism, err := by.mechanism()
	dialer := &kafka.Dialer{Timeout: timeout, DualStack: true, TLS: by.where.encrypted(), SASLMechanism: mechanism}
	return kafka.ReaderConfig{Brokers: []string{by.where.Bootstrap}, Topic: asked.Topic, Dialer: dialer}, err
}

func segmentRecord(message kafka.Message) record {
	header := ""
	for _, each := range message.Headers {
		header = string(each.Value)
	}
	return record{message.Partition, message.Offset, string(message.Key), string(message.Value), header}
}

func (by kafkaGo) consume(ctx context.Context, asked step) (any, error) {
	config, err := by.config(asked)
	if err != nil {
		return nil, err
	}
	config.GroupID, config.StartOffset = asked.Group, kafka.FirstOffset
	reader := kafka.NewReader(config)
	defer reader.Close()
	records, messages := []record{}, []kafka.Message{}
	for len(records) < asked.Count {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return nil, err
		}
		records, messages = append(records, segmentRecord(message)), append(messages, message)
	}
	return counted(records), reader.CommitMessages(ctx, messages...)
}

func (by kafkaGo) read(ctx context.Context, asked step) (any, error) {
	all := make(chan record)
	failed := make(chan error, asked.Partitions)
	for each := 0; each < asked.Partitions; each++ {
		config, err := by.config(asked)
		if err != nil {
			return nil, err
		}
		config.Partition = each
		if asked.Isolation == "read_committed" {
			config.IsolationLevel = kafka.ReadCommitted
		}
		reader := kafka.NewReader(config)
		defer reader.Close()
		go func() {
			for {
				message, err := reader.ReadMessage(ctx)
				if err != nil {
					failed <- err
					return
				}
				select {
				case all <- segmentRecord(message):
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	records := []record{}
	for len(records) < asked.Count {
		select {
		case one := <-all:
			records = append(records, one)
		case err := <-failed:
			return nil, fmt.Errorf("%d records came: %w", len(records), err)
		}
	}
	return counted(records), nil
}
