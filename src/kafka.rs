//! Settings that every client of Kafka shares: brokers, TLS, user and password.

use rdkafka::ClientConfig;
use std::path::PathBuf;

/// Longest answer waited for before a request counts as lost, in milliseconds: a broker that stands still is noticed.
const SOCKET_MS: &str = "10000";

/// How to reach Kafka. The password is never shown.
#[derive(Clone, Default)]
pub struct Settings {
    /// `host:port`, comma separated.
    pub brokers: String,
    /// User for SASL/SCRAM; empty: none.
    pub user: String,
    /// The user's password.
    pub password: String,
    /// Certificates that the brokers' must be signed by; given: TLS.
    pub ca_file: Option<PathBuf>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("brokers", &self.brokers)
            .field("user", &self.user)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Brokers without TLS or user.
    #[must_use]
    pub fn plain(brokers: &str) -> Self {
        Self { brokers: brokers.to_owned(), ..Self::default() }
    }

    /// Whether this build can do what is asked for.
    ///
    /// # Errors
    /// TLS or a user in a build without the feature `kafka-tls`.
    pub fn check(&self) -> Result<(), String> {
        let secure = self.ca_file.is_some() || !self.user.is_empty();
        if secure && !cfg!(feature = "kafka-tls") {
            return Err("this build speaks neither TLS nor SASL to Kafka; build it with `--features kafka-tls`".into());
        }
        Ok(())
    }

    /// A client's configuration to begin with. `name` is what brokers log.
    #[must_use]
    pub fn client(&self, name: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", format!("barrage-{name}"))
            .set("socket.timeout.ms", SOCKET_MS)
            .set("socket.keepalive.enable", "true")
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000");
        let (tls, user) = (self.ca_file.as_ref(), !self.user.is_empty());
        let protocol = match (tls.is_some(), user) {
            (false, false) => return config,
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(file) = tls {
            config.set("ssl.ca.location", file.display().to_string());
        }
        if user {
            config
                .set("sasl.mechanisms", "SCRAM-SHA-512")
                .set("sasl.username", &self.user)
                .set("sasl.password", &self.password);
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown_and_security_is_never_dropped_in_silence() {
        let settings = Settings {
            user: "barrage".into(),
            password: "hunter2".into(),
            ..Settings::plain("a:9092")
        };
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert_eq!(settings.client("x").get("security.protocol"), Some("sasl_plaintext"));
        assert_eq!(settings.check().is_ok(), cfg!(feature = "kafka-tls"));
        assert!(Settings::plain("a:9092").check().is_ok());
    }
}
