package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

type saramaClient struct{ where connection }

func ibm(where connection) client {
	by := saramaClient{where}
	return client{
		"create": by.create, "describe": by.describe, "describe_configs": by.describeConfigs,
		"alter_configs": by.alterConfigs, "delete": by.delete, "produce": by.produce,
		"transaction": by.transaction, "consume": by.consume, "read": by.read,
	}
}

// conversation is what sarama asks of a library of SCRAM.
type conversation struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (one *conversation) Begin(user, password, authorization string) error {
	made, err := one.hash.NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	one.ClientConversation = made.NewConversation()
	return nil
}

// given hands out one token.
type given string

func (token given) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(token)}, nil
}

func (by saramaClient) config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	if encrypted := by.where.encrypted(); encrypted != nil {
		made.Net.TLS.Enable, made.Net.TLS.Config = true, encrypted
	}
	if login := by.where.Sasl; login != nil {
		made.Net.SASL.Enable = true
		made.Net.SASL.Mechanism = sarama.SASLMechanism(login.Mechanism)
		made.Net.SASL.User, made.Net.SASL.Password = login.User, login.Password
		switch login.Mechanism {
		case "SCRAM-SHA-256":
			made.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: scram.SHA256} }
		case "SCRAM-SHA-512":
			made.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: scram.SHA512} }
		case "OAUTHBEARER":
			made.Net.SASL.TokenProvider = given(login.Token)
		}
	}
	return made
}

func (by saramaClient) admin() (sarama.ClusterAdmin, error) {
	return sarama.NewClusterAdmin([]string{by.where.Bootstrap}, by.config())
}

func (by saramaClient) create(_ context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	configs := map[string]*string{}
	for name, value := range asked.Configs {
		configs[name] = &value
	}
	detail := sarama.TopicDetail{NumPartitions: int32(asked.Partitions), ReplicationFactor: -1, ConfigEntries: configs}
	return nil, admin.CreateTopic(asked.Topic, &detail, false)
}

func (by saramaClient) describe(_ context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	told, err := admin.DescribeTopics([]string{asked.Topic})
	if err != nil {
		return nil, err
	}
	if told[0].Err != sarama.ErrNoError {
		return nil, told[0].Err
	}
	return map[string]int{"partitions": len(told[0].Partitions)}, nil
}

func (by saramaClient) describeConfigs(_ context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	told, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: asked.Topic, ConfigNames: asked.Names})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, each := range told {
		found[each.Name] = each.Value
	}
	return found, nil
}

func (by saramaClient) alterConfigs(_ context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	changes := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range asked.Configs {
		changes[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	}
	return nil, admin.IncrementalAlterConfig(sarama.TopicResource, asked.Topic, changes, false)
}

func (by saramaClient) delete(_ context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return nil, admin.DeleteTopic(asked.Topic)
}

func (by saramaClient) producer(asked step, transactional string) (sarama.SyncProducer, error) {
	config := by.config()
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Compression = saramaCodecs[asked.Codec]
	if transactional != "" {
		config.Producer.Transaction.ID = transactional
	}
	return sarama.NewSyncProducer([]string{by.where.Bootstrap}, config)
}

func saramaSent(producer sarama.SyncProducer, asked step) error {
	messages := []*sarama.ProducerMessage{}
	for number := 0; number < asked.Count; number++ {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: asked.Topic, Partition: int32(number % asked.Partitions), Key: sarama.StringEncoder(key(number)),
			Value:   sarama.StringEncoder(asked.value(number)),
			Headers: []sarama.RecordHeader{{Key: []byte("codec"), Value: []byte(asked.Codec)}},
		})
	}
	return producer.SendMessages(messages)
}

func (by saramaClient) produce(_ context.Context, asked step) (any, error) {
	producer, err := by.producer(asked, "")
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	return nil, saramaSent(producer, asked)
}

func (by saramaClient) transaction(_ context.Context, asked step) (any, error) {
	producer, err := by.producer(asked, asked.TransactionalId)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return nil, err
	}
	if err := saramaSent(producer, asked); err != nil {
		return nil, err
	}
	if asked.End == "commit" {
		return nil, producer.CommitTxn()
	}
	return nil, producer.AbortTxn()
}

func saramaRecord(message *sarama.ConsumerMessage) record {
	header := ""
	for _, each := range message.Headers {
		header = string(each.Value)
	}
	return record{message.Partition, message.Offset, string(message.Key), string(message.Value), header}
}

// member takes as many records as are wanted, whichever partitions they come from, commits and ends.
type member struct {
	wanted  int
	records chan *sarama.ConsumerMessage
	enough  chan struct{}
}

func (*member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (one *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case one.records <- message:
				session.MarkMessage(message, "")
			case <-one.enough:
				return nil
			}
		case <-one.enough:
			session.Commit()
			return nil
		case <-session.Context().Done():
			return nil
		}
	}
}

func (by saramaClient) consume(ctx context.Context, asked step) (any, error) {
	group, err := sarama.NewConsumerGroup([]string{by.where.Bootstrap}, asked.Group, by.config())
	if err != nil {
		return nil, err
	}
	one := &member{asked.Count, make(chan *sarama.ConsumerMessage), make(chan struct{})}
	ended := make(chan error, 1)
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	go func() { ended <- group.Consume(consuming, []string{asked.Topic}, one) }()
	records := []record{}
	for len(records) < asked.Count {
		select {
		case message := <-one.records:
			records = append(records, saramaRecord(message))
		case err := <-ended:
			return nil, errors.Join(errors.New("the session ended"), err)
		case <-ctx.Done():
			return nil, fmt.Errorf("%d records came in time", len(records))
		}
	}
	close(one.enough)
	if err := <-ended; err != nil {
		return nil, err
	}
	return counted(records), group.Close()
}

func (by saramaClient) read(ctx context.Context, asked step) (any, error) {
	config := by.config()
	if asked.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{by.where.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	all := make(chan *sarama.ConsumerMessage)
	for each := 0; each < asked.Partitions; each++ {
		partition, err := consumer.ConsumePartition(asked.Topic, int32(each), sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		go func() {
			for message := range partition.Messages() {
				all <- message
			}
		}()
	}
	records := []record{}
	for len(records) < asked.Count {
		select {
		case message := <-all:
			records = append(records, saramaRecord(message))
		case <-ctx.Done():
			return nil, fmt.Errorf("%d records came in time", len(records))
		}
	}
	return counted(records), nil
}
