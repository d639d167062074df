package org.apache.kafka.common.test.junit;

import static org.junit.jupiter.api.Assumptions.abort;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;

/** A cluster that is reached over the network alone: who wants to look into one of its brokers is not run. */
final class ExternalCluster implements ClusterInstance {

    /** Kafka's group.min.session.timeout.ms, which most tests set to 100 for their own cluster. */
    private static final int SESSION_TIMEOUT_MS_MIN = 6_000;

    /** Beyond the session of a member that nobody can remove. */
    private static final long CLEAN_MS_MAX = 90_000;

    private final ClusterConfig config;
    private final Type type;
    private boolean started;
    private boolean stopped;

    ExternalCluster(ClusterConfig config, Type type) {
        this.config = config;
        this.type = type;
    }

    @Override
    public Type type() {
        return type;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public String bootstrapServers() {
        var makesTopics = config.serverProperties().getOrDefault("auto.create.topics.enable", "true");
        return System.getProperty(makesTopics.equals("true") ? "portico.bootstrap" : "portico.bootstrap.strict");
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public String clusterId() {
        return ask(admin -> admin.describeCluster().clusterId().get());
    }

    @Override
    public Set<Integer> brokerIds() {
        return ask(ExternalCluster::nodes);
    }

    @Override
    public Admin admin(Map<String, Object> configs, boolean usingBootstrapControllers) {
        if (usingBootstrapControllers) {
            return lacking();
        }
        return CappedAdmin.over(ClusterInstance.super.admin(configs, false));
    }

    @Override
    public <K, V> Consumer<K, V> consumer(Map<String, Object> configs) {
        var taken = new HashMap<>(configs);
        taken.computeIfPresent(
            ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG,
            (name, asked) -> Math.max(SESSION_TIMEOUT_MS_MIN, Integer.parseInt(asked.toString())));
        return ClusterInstance.super.consumer(taken);
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        var features = ask(admin -> admin.describeFeatures().featureMetadata().get().finalizedFeatures());
        var group = features.get("group.version");
        return group != null && group.maxVersionLevel() > 0
            ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)
            : Set.of(GroupProtocol.CLASSIC);
    }

    /** Leaves no topic and no group of the test before. */
    @Override
    public void start() {
        ask(admin -> {
            clean(admin);
            return null;
        });
        started = true;
    }

    @Override
    public boolean started() {
        return started;
    }

    @Override
    public void stop() {
        stopped = true;
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void waitForReadyBrokers() {
    }

    @Override
    public void ensureConsistentMetadata() {
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        TestUtils.waitForCondition(() -> partitions(topic) == partitions, topic + " has no " + partitions + " partitions");
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        TestUtils.waitForCondition(() -> partitions(topic) == 0, topic + " is still there");
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return lacking();
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return lacking();
    }

    @Override
    public Set<Integer> controllerIds() {
        return lacking();
    }

    @Override
    public ListenerName controllerListenerName() {
        return lacking();
    }

    @Override
    public String bootstrapControllers() {
        return lacking();
    }

    @Override
    public void shutdownBroker(int brokerId) {
        lacking();
    }

    @Override
    public void startBroker(int brokerId) {
        lacking();
    }

    @Override
    public List<Authorizer> authorizers() {
        return lacking();
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) {
        lacking();
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    static Set<Integer> nodes(Admin admin) throws ExecutionException, InterruptedException {
        return admin.describeCluster().nodes().get().stream().map(Node::id).collect(Collectors.toCollection(TreeSet::new));
    }

    private static void clean(Admin admin) throws Exception {
        TestUtils.waitForCondition(() -> {
            var groups = admin.listGroups().all().get().stream().map(GroupListing::groupId).toList();
            for (String group : groups) {
                settled(admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all());
            }
            admin.deleteConsumerGroups(groups).deletedGroups().values().forEach(ExternalCluster::settled);
            var topics = admin.listTopics().names().get();
            admin.deleteTopics(topics).topicNameValues().values().forEach(ExternalCluster::settled);
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

    private int partitions(String topic) {
        return ask(admin -> {
            try {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            } catch (ExecutionException error) {
                if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                    return 0;
                }
                throw error;
            }
        });
    }

    private interface Question<T> {
        T of(Admin admin) throws Exception;
    }

    private <T> T ask(Question<T> question) {
        try (Admin admin = admin()) {
            return question.of(admin);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static <T> T lacking() {
        return abort("needs a broker in this JVM");
    }
}
