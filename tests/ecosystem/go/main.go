// Command groupmember is a franz-go member of a consumer group that tells what it read and what it committed, a line
// each: `read PARTITION OFFSET NANOSECONDS`, `committed PARTITION OFFSET NANOSECONDS`. Arguments: bootstrap server,
// group, topic. It leaves when it is told to end.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const recordsMax = 50

func main() {
	running, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumerGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.Balancers(kgo.StickyBalancer()),
		kgo.ServerSideBalancer(),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for running.Err() == nil {
		read(running, client)
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

// read takes what is there and commits it before it lets a rebalance go on.
func read(running context.Context, client *kgo.Client) {
	fetches := client.PollRecords(running, recordsMax)
	fetches.EachError(func(topic string, partition int32, err error) {
		fmt.Fprintf(os.Stderr, "not read: %s %d: %v\n", topic, partition, err)
	})
	records := fetches.Records()
	following := make(map[int32]int64)
	for _, record := range records {
		tell("read", record.Partition, record.Offset)
		following[record.Partition] = record.Offset + 1
	}
	if len(records) == 0 {
		return
	}
	if err := client.CommitRecords(context.Background(), records...); err != nil {
		fmt.Fprintf(os.Stderr, "not committed: %v\n", err)
		return
	}
	for partition, offset := range following {
		tell("committed", partition, offset)
	}
}

func tell(what string, partition int32, offset int64) {
	fmt.Println(what, partition, offset, time.Now().UnixNano())
}
