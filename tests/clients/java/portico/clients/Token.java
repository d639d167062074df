package portico.clients;

import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** Hands a client the token that the script gave. */
public final class Token implements AuthenticateCallbackHandler {
    static String value;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

    @Override
    public void handle(Callback[] callbacks) {
        for (Callback one : callbacks) {
            if (one instanceof OAuthBearerTokenCallback) {
                ((OAuthBearerTokenCallback) one).token(new Given());
            }
        }
    }

    @Override
    public void close() {}

    private static final class Given implements OAuthBearerToken {
        private final long now = System.currentTimeMillis();

        @Override
        public String value() {
            return Token.value;
        }

        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return now + 600_000;
        }

        @Override
        public String principalName() {
            return "";
        }

        @Override
        public Long startTimeMs() {
            return now;
        }
    }
}
