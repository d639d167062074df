package org.apache.kafka.streams.integration.utils;

import static org.junit.jupiter.api.Assumptions.abort;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Ends tests that are not to be run before they begin: those of the file that the system property
 * {@code portico.left.out} names, one a line, and what asks for streams groups (KIP-1071), which are not offered. JUnit
 * finds this class by itself.
 */
public class LeftOut implements BeforeEachCallback {

    private static final Set<String> LISTED = listed();

    /** As tests that take the protocol as an argument name it. */
    private static final Pattern STREAMS_GROUP = Pattern.compile("groupProtocol=streams|(streamsProtocolEnabled|useNewProtocol|streamsRebalanceProtocolEnabled)=true|STREAMS protocol");

    /** Which one it is of a test with arguments, as JUnit's report numbers them. */
    private static final Pattern INVOCATION = Pattern.compile("test-template-invocation:#(\\d+)");

    @Override
    public void beforeEach(ExtensionContext context) {
        if (STREAMS_GROUP.matcher(context.getDisplayName()).find()) {
            abort("wants streams groups");
        }
        String test = context.getRequiredTestClass().getSimpleName() + "." + context.getRequiredTestMethod().getName();
        var invocation = INVOCATION.matcher(context.getUniqueId());
        if (LISTED.contains(invocation.find() ? test + "[" + invocation.group(1) + "]" : test)) {
            abort("listed as not applicable");
        }
    }

    private static Set<String> listed() {
        try {
            return Files.readAllLines(Path.of(System.getProperty("portico.left.out"))).stream()
                .map(String::strip)
                .collect(Collectors.toSet());
        } catch (IOException error) {
            throw new ExceptionInInitializerError(error);
        }
    }
}
