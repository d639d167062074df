package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

type franzGo struct{ options []kgo.Opt }

func franz(where connection) client {
	options := []kgo.Opt{kgo.SeedBrokers(where.Bootstrap), kgo.RecordDeliveryTimeout(timeout), kgo.RetryTimeout(timeout)}
	if encrypted := where.encrypted(); encrypted != nil {
		options = append(options, kgo.DialTLSConfig(encrypted))
	}
	if by := where.Sasl; by != nil {
		switch by.Mechanism {
		case "SCRAM-SHA-256":
			options = append(options, kgo.SASL(scram.Auth{User: by.User, Pass: by.Password}.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			options = append(options, kgo.SASL(scram.Auth{User: by.User, Pass: by.Password}.AsSha512Mechanism()))
		case "PLAIN":
			options = append(options, kgo.SASL(plain.Auth{User: by.User, Pass: by.Password}.AsMechanism()))
		case "OAUTHBEARER":
			options = append(options, kgo.SASL(oauth.Auth{Token: by.Token}.AsMechanism()))
		}
	}
	by := franzGo{options}
	return client{
		"create": by.create, "describe": by.describe, "describe_configs": by.describeConfigs,
		"alter_configs": by.alterConfigs, "delete": by.delete, "create_acl": by.createAcl, "produce": by.produce,
		"transaction": by.transaction, "consume": by.consume, "read": by.read,
	}
}

// named gives an error of Kafka's its name.
func named(err error) error {
	var kafkas *kerr.Error
	if errors.As(err, &kafkas) {
		return refused{kafkas.Message, err.Error()}
	}
	return err
}

func (by franzGo) client(own ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt{}, by.options...), own...)...)
}

func (by franzGo) admin() (*kadm.Client, error) {
	made, err := by.client()
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(made), nil
}

func (by franzGo) create(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	configs := map[string]*string{}
	for name, value := range asked.Configs {
		configs[name] = kadm.StringPtr(value)
	}
	_, err = admin.CreateTopic(ctx, int32(asked.Partitions), -1, configs, asked.Topic)
	return nil, named(err)
}

func (by franzGo) describe(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	told, err := admin.ListTopics(ctx, asked.Topic)
	if err != nil {
		return nil, named(err)
	}
	topic := told[asked.Topic]
	return map[string]int{"partitions": len(topic.Partitions)}, named(topic.Err)
}

func (by franzGo) describeConfigs(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	told, err := admin.DescribeTopicConfigs(ctx, asked.Topic)
	if err != nil {
		return nil, named(err)
	}
	topic, err := told.On(asked.Topic, nil)
	if err != nil {
		return nil, named(err)
	}
	found := map[string]string{}
	for _, name := range asked.Names {
		for _, each := range topic.Configs {
			if each.Key == name {
				found[name] = each.MaybeValue()
			}
		}
	}
	return found, named(topic.Err)
}

func (by franzGo) alterConfigs(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	changes := []kadm.AlterConfig{}
	for name, value := range asked.Configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: kadm.StringPtr(value)})
	}
	told, err := admin.AlterTopicConfigs(ctx, changes, asked.Topic)
	if err != nil {
		return nil, named(err)
	}
	topic, err := told.On(asked.Topic, nil)
	if err != nil {
		return nil, named(err)
	}
	return nil, named(topic.Err)
}

func (by franzGo) delete(ctx context.Context, asked step) (any, error) {
	admin, err := by.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	told, err := admin.DeleteTopics(ctx, asked.Topic)
	if err != nil {
		return nil, named(err)
	}
	return nil, named(told.Error())
}

func (by franzGo) createAcl(ctx context.Context, asked step) (any, error) {
	made, err := by.client()
	if err != nil {
		return nil, err
	}
	defer made.Close()
	creation := kmsg.NewCreateACLsRequestCreation()
	if creation.ResourceType, err = kmsg.ParseACLResourceType(asked.Type); err != nil {
		return nil, err
	}
	if creation.Operation, err = kmsg.ParseACLOperation(asked.Operation); err != nil {
		return nil, err
	}
	creation.ResourceName, creation.Principal, creation.Host = asked.Name, asked.Principal, "*"
	creation.ResourcePatternType, creation.PermissionType = kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLPermissionTypeAllow
	request := kmsg.NewPtrCreateACLsRequest()
	request.Creations = append(request.Creations, creation)
	told, err := request.RequestWith(ctx, made)
	if err != nil {
		return nil, named(err)
	}
	return nil, named(kerr.ErrorForCode(told.Results[0].ErrorCode))
}

func (by franzGo) sent(ctx context.Context, made *kgo.Client, asked step) error {
	records := []*kgo.Record{}
	for number := 0; number < asked.Count; number++ {
		records = append(records, &kgo.Record{
			Topic: asked.Topic, Partition: int32(number % asked.Partitions), Key: []byte(key(number)),
			Value: []byte(asked.value(number)), Headers: []kgo.RecordHeader{{Key: "codec", Value: []byte(asked.Codec)}},
		})
	}
	return named(made.ProduceSync(ctx, records...).FirstErr())
}

func (by franzGo) producing(asked step, own ...kgo.Opt) (*kgo.Client, error) {
	return by.client(append(own, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(franzCodecs[asked.Codec]))...)
}

func (by franzGo) produce(ctx context.Context, asked step) (any, error) {
	made, err := by.producing(asked)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	return nil, by.sent(ctx, made, asked)
}

func (by franzGo) transaction(ctx context.Context, asked step) (any, error) {
	made, err := by.producing(asked, kgo.TransactionalID(asked.TransactionalId))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	if err := made.BeginTransaction(); err != nil {
		return nil, named(err)
	}
	if err := by.sent(ctx, made, asked); err != nil {
		return nil, err
	}
	return nil, named(made.EndTransaction(ctx, kgo.TransactionEndTry(asked.End == "commit")))
}

func franzTaken(ctx context.Context, made *kgo.Client, asked step) ([]record, error) {
	records := []record{}
	for len(records) < asked.Count {
		fetches := made.PollRecords(ctx, asked.Count-len(records))
		if err := fetches.Err(); err != nil {
			return nil, named(err)
		}
		fetches.EachRecord(func(one *kgo.Record) {
			header := ""
			for _, each := range one.Headers {
				header = string(each.Value)
			}
			records = append(records, record{one.Partition, one.Offset, string(one.Key), string(one.Value), header})
		})
	}
	return records, nil
}

func (by franzGo) consume(ctx context.Context, asked step) (any, error) {
	made, err := by.client(kgo.ConsumerGroup(asked.Group), kgo.ConsumeTopics(asked.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	records, err := franzTaken(ctx, made, asked)
	if err != nil {
		return nil, err
	}
	return counted(records), named(made.CommitUncommittedOffsets(ctx))
}

func (by franzGo) read(ctx context.Context, asked step) (any, error) {
	isolation := kgo.ReadUncommitted()
	if asked.Isolation == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	made, err := by.client(kgo.ConsumeTopics(asked.Topic), kgo.FetchIsolationLevel(isolation),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	records, err := franzTaken(ctx, made, asked)
	return counted(records), err
}
