package portico;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a consumer group that tells what it read and what it committed, a line each: {@code read PARTITION OFFSET
 * NANOSECONDS}, {@code committed PARTITION OFFSET NANOSECONDS}. Arguments: bootstrap servers, group, topic. It leaves
 * when it is told to end.
 */
public final class GroupMember {

    private GroupMember() {
    }

    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("group.protocol", "consumer");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "50");
        var deserializer = new ByteArrayDeserializer();
        var consumer = new KafkaConsumer<byte[], byte[]>(settings, deserializer, deserializer);
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(arguments[2]));
        try {
            while (true) {
                read(consumer);
            }
        } catch (WakeupException told) {
            consumer.close();
        }
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer) {
        var records = consumer.poll(Duration.ofMillis(200));
        records.forEach(record -> tell("read", record.partition(), record.offset()));
        try {
            consumer.commitSync();
        } catch (WakeupException told) {
            throw told;
        } catch (KafkaException refused) {
            System.err.println("not committed: " + refused);
            return;
        }
        records.nextOffsets().forEach((partition, next) -> tell("committed", partition.partition(), next.offset()));
    }

    private static void tell(String what, int partition, long offset) {
        var now = Instant.now();
        System.out.println(what + " " + partition + " " + offset + " " + (now.getEpochSecond() * 1_000_000_000L + now.getNano()));
    }
}
