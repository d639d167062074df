package org.apache.kafka.streams.integration.utils;

import static org.junit.jupiter.api.Assumptions.abort;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.server.util.MockTime;
import org.apache.kafka.test.TestUtils;

/**
 * Stands on the class path in front of Kafka's class of this name, which starts brokers in this JVM. This one hands
 * tests the cluster that is there, without the topics and groups of the tests before.
 *
 * System properties: {@code portico.bootstrap}, where it is; {@code portico.bootstrap.strict}, where one is whose topics
 * are not made by being asked for.
 */
public class EmbeddedKafkaCluster {

    /** Beyond the session of a member that nobody can remove. */
    private static final long CLEAN_MS_MAX = 90_000;

    private static final Duration ANSWER_MAX = Duration.ofMinutes(2);

    public final MockTime time;
    private final String bootstrapServers;

    public EmbeddedKafkaCluster(int numBrokers) {
        this(numBrokers, new Properties());
    }

    public EmbeddedKafkaCluster(int numBrokers, Properties brokerConfig) {
        this(numBrokers, brokerConfig, Map.of());
    }

    public EmbeddedKafkaCluster(int numBrokers, Properties brokerConfig, long mockTimeMillisStart) {
        this(numBrokers, brokerConfig, Map.of(), mockTimeMillisStart, System.nanoTime());
    }

    public EmbeddedKafkaCluster(
            int numBrokers, Properties brokerConfig, Map<Integer, Map<String, String>> brokerConfigOverrides) {
        this(numBrokers, brokerConfig, brokerConfigOverrides, System.currentTimeMillis(), System.nanoTime());
    }

    public EmbeddedKafkaCluster(
            int numBrokers,
            Properties brokerConfig,
            Map<Integer, Map<String, String>> brokerConfigOverrides,
            long mockTimeMillisStart,
            long mockTimeNanoStart) {
        var makesTopics = String.valueOf(brokerConfig.getOrDefault("auto.create.topics.enable", "true"));
        bootstrapServers =
            System.getProperty(makesTopics.equals("true") ? "portico.bootstrap" : "portico.bootstrap.strict");
        time = new MockTime(mockTimeMillisStart, mockTimeNanoStart);
    }

    /** Leaves no topic and no group of the tests before. */
    public void start() {
        ask(admin -> {
            clean(admin);
            return null;
        });
    }

    /** The next one cleans: what is left tells why a test failed. */
    public void stop() {
    }

    public void verifyClusterReadiness() {
    }

    public void shutdownBroker(int brokerId) {
        abort("stops a broker");
    }

    public void startBroker(int brokerId) {
        abort("starts a broker");
    }

    public String bootstrapServers() {
        return bootstrapServers;
    }

    public boolean sslEnabled() {
        return false;
    }

    public void createTopics(String... topics) throws InterruptedException {
        for (String topic : topics) {
            createTopic(topic);
        }
    }

    public void createTopic(String topic) {
        createTopic(topic, 1);
    }

    public void createTopic(String topic, int partitions) {
        createTopic(topic, partitions, 1, Map.of());
    }

    public void createTopic(String topic, int partitions, int replication) throws InterruptedException {
        createTopic(topic, partitions, replication, Map.of());
    }

    /** With no more replicas than there are brokers. */
    public void createTopic(String topic, int partitions, int replication, Map<String, String> topicConfig) {
        ask(admin -> {
            int brokers = admin.describeCluster().nodes().get().size();
            var wanted = new NewTopic(topic, partitions, (short) Math.min(replication, brokers)).configs(topicConfig);
            unless(TopicExistsException.class, admin.createTopics(List.of(wanted)).all());
            TestUtils.waitForCondition(() -> names(admin).contains(topic), topic + " is not there");
            return null;
        });
    }

    public void deleteTopics(String... topics) {
        for (String topic : topics) {
            deleteTopic(topic);
        }
    }

    public void deleteTopic(String topic) {
        ask(admin -> {
            unless(UnknownTopicOrPartitionException.class, admin.deleteTopics(List.of(topic)).all());
            return null;
        });
    }

    public void deleteAllTopics() {
        ask(admin -> {
            unless(UnknownTopicOrPartitionException.class, admin.deleteTopics(names(admin)).all());
            return null;
        });
    }

    public void produce(
            Map<String, Object> producerProps, String topic, Integer partition, String key, String value) {
        var serializer = new ByteArraySerializer();
        try (var producer = new KafkaProducer<byte[], byte[]>(producerProps, serializer, serializer)) {
            producer.send(new ProducerRecord<>(topic, partition, bytes(key), bytes(value))).get();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    public Admin createAdminClient() {
        return Admin.create(new HashMap<String, Object>(clientDefaultConfig()));
    }

    public Map<String, String> clientDefaultConfig() {
        return new HashMap<>(Map.of(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers()));
    }

    public KafkaConsumer<byte[], byte[]> createConsumer(Map<String, Object> consumerProps) {
        var taken = new HashMap<String, Object>(clientDefaultConfig());
        taken.putAll(consumerProps);
        taken.putIfAbsent(ConsumerConfig.GROUP_ID_CONFIG, UUID.randomUUID().toString());
        taken.putIfAbsent(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        taken.putIfAbsent(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        taken.putIfAbsent(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
        taken.putIfAbsent(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
        return new KafkaConsumer<>(taken);
    }

    public KafkaConsumer<byte[], byte[]> createConsumerAndSubscribeTo(
            Map<String, Object> consumerProps, String... topics) {
        return createConsumerAndSubscribeTo(consumerProps, null, topics);
    }

    public KafkaConsumer<byte[], byte[]> createConsumerAndSubscribeTo(
            Map<String, Object> consumerProps, ConsumerRebalanceListener rebalanceListener, String... topics) {
        var consumer = createConsumer(consumerProps);
        if (rebalanceListener == null) {
            consumer.subscribe(List.of(topics));
        } else {
            consumer.subscribe(List.of(topics), rebalanceListener);
        }
        return consumer;
    }

    public void waitForRemainingTopics(long timeoutMs, String... topics) throws InterruptedException {
        TestUtils.waitForCondition(
            () -> getAllTopicsInCluster().equals(Set.of(topics)), timeoutMs, "other topics than " + Set.of(topics));
    }

    public Set<String> getAllTopicsInCluster() {
        return ask(admin -> admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get());
    }

    public Properties getLogConfig(String topic) {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return ask(admin -> {
            var properties = new Properties();
            admin.describeConfigs(List.of(resource)).values().get(resource).get().entries().stream()
                .filter(entry -> entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
                .forEach(entry -> properties.put(entry.name(), entry.value()));
            return properties;
        });
    }

    /** Of streams groups, whose tests {@link LeftOut} ends; tests with other groups set it as well. */
    public void setGroupSessionTimeout(String groupId, int sessionTimeoutMs) {
    }

    /** As the session's. */
    public void setGroupHeartbeatTimeout(String groupId, int heartbeatTimeoutMs) {
    }

    /** As the session's. */
    public void setGroupStandbyReplicas(String groupId, int numStandbyReplicas) {
    }

    /** As the session's. */
    public void setGroupStreamsInitialRebalanceDelay(String groupId, int initialRebalanceDelayMs) {
    }

    private static void clean(Admin admin) throws Exception {
        TestUtils.waitForCondition(() -> {
            Collection<String> groups =
                admin.listGroups().all().get().stream().map(GroupListing::groupId).collect(Collectors.toSet());
            for (String group : groups) {
                settled(admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all());
            }
            admin.deleteConsumerGroups(groups).deletedGroups().values().forEach(EmbeddedKafkaCluster::settled);
            var topics = names(admin);
            admin.deleteTopics(topics).topicNameValues().values().forEach(EmbeddedKafkaCluster::settled);
            return groups.isEmpty() && topics.isEmpty();
        }, CLEAN_MS_MAX, "topics and groups of the test before are still there");
    }

    /** Not all goes at once: a static member may have to time out. The next round sees what is left. */
    private static void settled(KafkaFuture<Void> deletion) {
        try {
            deletion.get();
        } catch (ExecutionException refused) {
            System.err.println("not gone yet: " + refused.getCause());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void unless(Class<? extends Exception> taken, KafkaFuture<Void> done) throws Exception {
        try {
            done.get(ANSWER_MAX.toSeconds(), TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            if (!taken.isInstance(error.getCause())) {
                throw error;
            }
        }
    }

    private static Set<String> names(Admin admin) throws ExecutionException, InterruptedException {
        return admin.listTopics().names().get();
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes();
    }

    private interface Question<T> {
        T of(Admin admin) throws Exception;
    }

    private <T> T ask(Question<T> question) {
        try (Admin admin = createAdminClient()) {
            return question.of(admin);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
