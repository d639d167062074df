package org.apache.kafka.common.test.junit;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/**
 * An Admin whose new topics ask for no more replicas than there are brokers, and for those brokers, where a test is
 * written for a larger cluster. All else is Kafka's.
 */
final class CappedAdmin {

    private CappedAdmin() {
    }

    static Admin over(Admin admin) {
        return (Admin) Proxy.newProxyInstance(
            Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, (proxy, method, arguments) -> {
                if (method.getName().equals("createTopics")) {
                    arguments[0] = capped((Collection<?>) arguments[0], ExternalCluster.nodes(admin));
                }
                return called(admin, method, arguments);
            });
    }

    private static Object called(Admin admin, Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(admin, arguments);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    private static List<NewTopic> capped(Collection<?> topics, Set<Integer> nodes) {
        return topics.stream().map(topic -> capped((NewTopic) topic, nodes)).toList();
    }

    private static NewTopic capped(NewTopic topic, Set<Integer> nodes) {
        NewTopic taken;
        if (topic.replicasAssignments() != null) {
            taken = new NewTopic(topic.name(), assigned(topic.replicasAssignments(), nodes));
        } else if (topic.replicationFactor() > nodes.size()) {
            taken = new NewTopic(topic.name(), topic.numPartitions(), (short) nodes.size());
        } else {
            return topic;
        }
        return taken.configs(topic.configs());
    }

    private static Map<Integer, List<Integer>> assigned(Map<Integer, List<Integer>> wanted, Set<Integer> nodes) {
        return wanted.entrySet().stream().collect(Collectors.toMap(
            Map.Entry::getKey, partition -> nodes.stream().limit(partition.getValue().size()).toList()));
    }
}
