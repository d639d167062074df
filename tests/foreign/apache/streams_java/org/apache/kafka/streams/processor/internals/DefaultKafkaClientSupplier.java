package org.apache.kafka.streams.processor.internals;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaClientSupplier;

/**
 * Stands on the class path in front of Kafka's class of this name. The clients are the same, but ask for sessions and
 * transactions that a broker allows which tests have not set up.
 */
public class DefaultKafkaClientSupplier implements KafkaClientSupplier {

    /** Kafka's transaction.max.timeout.ms. */
    private static final int TRANSACTION_TIMEOUT_MS_MAX = 900_000;

    /** Kafka's group.min.session.timeout.ms. */
    private static final int SESSION_TIMEOUT_MS_MIN = 6_000;

    @Override
    public Admin getAdmin(Map<String, Object> config) {
        return Admin.create(config);
    }

    @Override
    public Producer<byte[], byte[]> getProducer(Map<String, Object> config) {
        var taken = new HashMap<>(config);
        taken.computeIfPresent(
            ProducerConfig.TRANSACTION_TIMEOUT_CONFIG,
            (name, asked) -> Math.min(TRANSACTION_TIMEOUT_MS_MAX, Integer.parseInt(asked.toString())));
        return new KafkaProducer<>(taken, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    public Consumer<byte[], byte[]> getConsumer(Map<String, Object> config) {
        var taken = new HashMap<>(config);
        taken.computeIfPresent(
            ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG,
            (name, asked) -> Math.max(SESSION_TIMEOUT_MS_MIN, Integer.parseInt(asked.toString())));
        return new KafkaConsumer<>(taken, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Consumer<byte[], byte[]> getRestoreConsumer(Map<String, Object> config) {
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Consumer<byte[], byte[]> getGlobalConsumer(Map<String, Object> config) {
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
