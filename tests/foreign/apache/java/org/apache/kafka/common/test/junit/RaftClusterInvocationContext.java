package org.apache.kafka.common.test.junit;

import static org.junit.jupiter.api.Assumptions.abort;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

/**
 * Stands on the class path in front of Kafka's class of this name, which starts a cluster in this JVM for each
 * test. This one hands the test the cluster that is there.
 *
 * System properties: {@code portico.bootstrap}, where it is; {@code portico.bootstrap.strict}, where one is whose topics
 * are not made by being asked for; {@code portico.left.out}, a file of the tests that are not to be run, one a line.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {

    private static final Set<String> LEFT_OUT = leftOut();

    private final String name;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + "[" + index + "]";
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        var cluster = new ExternalCluster(config, isCombined ? Type.CO_KRAFT : Type.KRAFT);
        return List.of(
            (BeforeEachCallback) context -> {
                refuse(context);
                cluster.start();
            },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }

    private void refuse(ExtensionContext context) {
        if (isCombined && config.clusterTypes().contains(Type.KRAFT)) {
            abort("the same test runs as KRAFT; how brokers and controllers share processes is not for a client to see");
        }
        if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
            abort("wants a listener of " + config.brokerSecurityProtocol());
        }
        if (!config.isAutoStart()) {
            abort("starts brokers itself");
        }
        String test = context.getRequiredTestClass().getSimpleName() + "." + context.getDisplayName();
        if (LEFT_OUT.contains(test)) {
            abort("listed as not applicable");
        }
    }

    private static Set<String> leftOut() {
        try {
            return Files.readAllLines(Path.of(System.getProperty("portico.left.out"))).stream()
                .map(String::strip)
                .collect(Collectors.toSet());
        } catch (IOException error) {
            throw new ExceptionInInitializerError(error);
        }
    }
}
