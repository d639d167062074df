package portico.clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache's own client; the same source is compiled against each of its releases. */
public final class Program {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long TIMEOUT_MS = 30_000;
    private static final String PADDING = "x".repeat(100);
    private final Map<String, Object> settings;

    private Program(Map<String, Object> settings) {
        this.settings = settings;
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode script = JSON.readTree(System.in);
        Program program = new Program(settings(script.get("connection")));
        for (JsonNode step : script.get("steps")) {
            System.out.println(JSON.writeValueAsString(program.told(step)));
            System.out.flush();
        }
    }

    private Map<String, Object> told(JsonNode step) {
        try {
            Map<String, Object> told = new HashMap<>();
            told.put("result", done(step));
            return told;
        } catch (Throwable error) {
            Throwable cause = error;
            while (cause.getCause() != null && !(cause instanceof ApiException && named(cause))) {
                cause = cause.getCause();
            }
            boolean isKafkas = cause instanceof ApiException && named(cause);
            String name = isKafkas ? Errors.forException(cause).name() : cause.getClass().getSimpleName();
            return Map.of("error", name, "text", String.valueOf(cause.getMessage()));
        }
    }

    /** Whether Kafka has a name for it that says more than that it does not know. */
    private static boolean named(Throwable error) {
        return Errors.forException(error) != Errors.UNKNOWN_SERVER_ERROR;
    }

    private Object done(JsonNode step) throws Exception {
        switch (text(step, "do")) {
            case "create": return create(step);
            case "describe": return describe(step);
            case "describe_configs": return describeConfigs(step);
            case "alter_configs": return alterConfigs(step);
            case "delete": return delete(step);
            case "create_acl": return createAcl(step);
            case "produce": return produce(step, null);
            case "transaction": return produce(step, text(step, "transactional_id"));
            case "consume": return consume(step);
            case "read": return read(step);
            default: throw new IllegalArgumentException(step.toString());
        }
    }

    private static Map<String, Object> settings(JsonNode connection) throws Exception {
        Map<String, Object> made = new HashMap<>();
        JsonNode tls = connection.get("tls");
        JsonNode sasl = connection.get("sasl");
        made.put("bootstrap.servers", text(connection, "bootstrap"));
        made.put("security.protocol", (sasl.isNull() ? "" : "SASL_") + (tls.isNull() ? "PLAINTEXT" : "SSL"));
        made.put("default.api.timeout.ms", (int) TIMEOUT_MS);
        if (!tls.isNull()) {
            made.put("ssl.truststore.type", "PEM");
            made.put("ssl.truststore.location", text(tls, "ca"));
            if (!tls.get("certificate").isNull()) {
                made.put("ssl.keystore.type", "PEM");
                made.put("ssl.keystore.certificate.chain", Files.readString(Path.of(text(tls, "certificate"))));
                made.put("ssl.keystore.key", Files.readString(Path.of(text(tls, "key"))));
            }
        }
        if (!sasl.isNull()) {
            String mechanism = text(sasl, "mechanism");
            String modules = "org.apache.kafka.common.security.";
            String user = " required username=\"" + text(sasl, "user") + "\" password=\"" + text(sasl, "password") + "\";";
            made.put("sasl.mechanism", mechanism);
            if (mechanism.equals("OAUTHBEARER")) {
                Token.value = text(sasl, "token");
                made.put("sasl.jaas.config", modules + "oauthbearer.OAuthBearerLoginModule required;");
                made.put("sasl.login.callback.handler.class", Token.class.getName());
            } else if (mechanism.equals("PLAIN")) {
                made.put("sasl.jaas.config", modules + "plain.PlainLoginModule" + user);
            } else {
                made.put("sasl.jaas.config", modules + "scram.ScramLoginModule" + user);
            }
        }
        return made;
    }

    private Map<String, Object> with(Object... own) {
        Map<String, Object> made = new HashMap<>(settings);
        for (int at = 0; at < own.length; at += 2) {
            made.put((String) own[at], own[at + 1]);
        }
        return made;
    }

    private static String text(JsonNode node, String name) {
        return node.get(name).asText();
    }

    private static int number(JsonNode node, String name) {
        return node.get(name).asInt();
    }

    private static <T> T wait(KafkaFuture<T> future) throws Exception {
        return future.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
    }

    private Object create(JsonNode step) throws Exception {
        NewTopic topic = new NewTopic(text(step, "topic"), Optional.of(number(step, "partitions")), Optional.empty());
        topic.configs(texts(step.get("configs")));
        try (Admin admin = Admin.create(settings)) {
            wait(admin.createTopics(List.of(topic)).all());
        }
        return Map.of();
    }

    private static Map<String, String> texts(JsonNode node) {
        Map<String, String> made = new LinkedHashMap<>();
        node.fields().forEachRemaining(entry -> made.put(entry.getKey(), entry.getValue().asText()));
        return made;
    }

    @SuppressWarnings("unchecked")
    private Object describe(JsonNode step) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            DescribeTopicsResult told = admin.describeTopics(List.of(text(step, "topic")));
            String all = "allTopicNames"; // before 3.1 it is called otherwise, since 4.0 nothing else is there
            if (List.of(DescribeTopicsResult.class.getMethods()).stream().noneMatch(one -> one.getName().equals(all))) {
                return counted(wait((KafkaFuture<Map<String, TopicDescription>>) method("all").invoke(told)));
            }
            return counted(wait((KafkaFuture<Map<String, TopicDescription>>) method(all).invoke(told)));
        }
    }

    private static java.lang.reflect.Method method(String name) throws NoSuchMethodException {
        return DescribeTopicsResult.class.getMethod(name);
    }

    private static Object counted(Map<String, TopicDescription> topics) {
        return Map.of("partitions", topics.values().iterator().next().partitions().size());
    }

    private static ConfigResource resource(JsonNode step) {
        return new ConfigResource(ConfigResource.Type.TOPIC, text(step, "topic"));
    }

    private Object describeConfigs(JsonNode step) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            Config told = wait(admin.describeConfigs(List.of(resource(step))).all()).get(resource(step));
            Map<String, String> found = new LinkedHashMap<>();
            step.get("names").forEach(name -> found.put(name.asText(), told.get(name.asText()).value()));
            return found;
        }
    }

    private Object alterConfigs(JsonNode step) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        texts(step.get("configs"))
            .forEach((name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        try (Admin admin = Admin.create(settings)) {
            wait(admin.incrementalAlterConfigs(Map.of(resource(step), changes)).all());
        }
        return Map.of();
    }

    private Object delete(JsonNode step) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            wait(admin.deleteTopics(Set.of(text(step, "topic"))).all());
        }
        return Map.of();
    }

    private Object createAcl(JsonNode step) throws Exception {
        ResourcePattern pattern =
            new ResourcePattern(ResourceType.valueOf(text(step, "type")), text(step, "name"), PatternType.LITERAL);
        AccessControlEntry entry = new AccessControlEntry(
            text(step, "principal"), "*", AclOperation.valueOf(text(step, "operation")), AclPermissionType.ALLOW);
        try (Admin admin = Admin.create(settings)) {
            wait(admin.createAcls(List.of(new AclBinding(pattern, entry))).all());
        }
        return Map.of();
    }

    private Object produce(JsonNode step, String transactionalId) throws Exception {
        Map<String, Object> own = with(
            "compression.type", text(step, "codec"), "linger.ms", 100, "acks", "all",
            "max.block.ms", TIMEOUT_MS, "delivery.timeout.ms", (int) TIMEOUT_MS, "request.timeout.ms", 20_000);
        if (transactionalId != null) {
            own.put("transactional.id", transactionalId);
        }
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(own, new StringSerializer(), new StringSerializer())) {
            if (transactionalId != null) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int each = 0; each < number(step, "count"); each++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(
                    text(step, "topic"), each % number(step, "partitions"), "k" + each,
                    text(step, "prefix") + "-" + each + "-" + PADDING);
                record.headers().add("codec", text(step, "codec").getBytes());
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
            }
            if (transactionalId != null) {
                if (text(step, "end").equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        return Map.of();
    }

    private KafkaConsumer<String, String> consumer(Object... own) {
        Map<String, Object> made = with(own);
        made.put("auto.offset.reset", "earliest");
        made.put("enable.auto.commit", false);
        return new KafkaConsumer<>(made, new StringDeserializer(), new StringDeserializer());
    }

    private static List<List<Object>> taken(KafkaConsumer<String, String> consumer, JsonNode step) {
        List<List<Object>> records = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(TIMEOUT_MS);
        while (records.size() < number(step, "count")) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(records.size() + " records came in time");
            }
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(200))) {
                if (records.size() < number(step, "count")) {
                    Header header = one.headers().lastHeader("codec");
                    String codec = header == null ? "" : new String(header.value());
                    records.add(List.of(one.partition(), one.offset(), one.key(), one.value(), codec));
                }
            }
        }
        return records;
    }

    private Object consume(JsonNode step) {
        try (KafkaConsumer<String, String> consumer = consumer("group.id", text(step, "group"))) {
            consumer.subscribe(List.of(text(step, "topic")));
            List<List<Object>> records = taken(consumer, step);
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (List<Object> one : records) {
                ends.put(new TopicPartition(text(step, "topic"), (int) one.get(0)), new OffsetAndMetadata((long) one.get(1) + 1));
            }
            consumer.commitSync(ends);
            return Map.of("records", records);
        }
    }

    private Object read(JsonNode step) {
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", text(step, "isolation"))) {
            List<TopicPartition> all = new ArrayList<>();
            for (int each = 0; each < number(step, "partitions"); each++) {
                all.add(new TopicPartition(text(step, "topic"), each));
            }
            consumer.assign(all);
            return Map.of("records", taken(consumer, step));
        }
    }
}
