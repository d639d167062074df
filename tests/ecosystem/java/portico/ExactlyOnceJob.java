package portico;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Submits a job that writes the numbers from 0 on to a topic, exactly once, and waits for its end.
 * Arguments: the directory of Flink's configuration, bootstrap servers, topic, how many, how many a second.
 */
public final class ExactlyOnceJob {

    private ExactlyOnceJob() {
    }

    public static void main(String[] arguments) throws Exception {
        var numbers = new DataGeneratorSource<>(
            number -> Long.toString(number),
            Long.parseLong(arguments[3]),
            RateLimiterStrategy.perSecond(Double.parseDouble(arguments[4])),
            Types.STRING);
        var sink = KafkaSink.<String>builder()
            .setBootstrapServers(arguments[1])
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("flink")
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(arguments[2])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        var configuration = GlobalConfiguration.loadConfiguration(arguments[0]);
        var environment = StreamExecutionEnvironment.createRemoteEnvironment(
            configuration.get(RestOptions.ADDRESS), configuration.get(RestOptions.PORT), configuration);
        environment.fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers").sinkTo(sink);
        environment.execute("exactly once");
    }
}
