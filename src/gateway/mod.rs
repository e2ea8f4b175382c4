//! `barrage gateway`: an example of an edge, with the load of a match night on it. What it offers goes to Kafka, what it
//! let pass and refused as reports beside it, so that the loop is closed.
//!
//! * [`Args`]; [`Tally`]: what became of messages, told once a second; [`Sender`]: the way to Kafka.

use crate::kafka;
use crate::scenes::Programme;
use barrage_edge::Verdict;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `barrage gateway`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example: barrage gateway -c barrage.toml --scene storm --for 2min\n\
    The raid (or whatever the scene has) begins 42 s after the start: baselines have to be known first.")]
pub struct Args {
    /// The configuration of the cluster
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Name of this edge
    #[arg(long, value_name = "NAME", default_value = "gw-1")]
    pub edge: String,
    /// Which scenes are played
    #[arg(long, value_enum, default_value_t = Programme::Match)]
    pub scene: Programme,
    /// Rooms
    #[arg(long, value_name = "N", default_value_t = 90, value_parser = clap::value_parser!(u16).range(30..=10_000))]
    pub rooms: u16,
    /// The same seed plays the same night
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
    /// Where the edge keeps its copy of the policies [default: in the state directory of the configuration]
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// End by itself after this long, with a summary
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
}

fn duration(text: &str) -> Result<Duration, String> {
    match barrage_engine::rules::text::duration_ms(text) {
        Ok(0) => Err("must be longer than nothing".into()),
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(why) => Err(format!("{why}, as in `90s` or `2min`")),
    }
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// That came.
    pub offered: u64,
    /// That passed at once.
    pub admitted: u64,
    /// That passed later.
    pub delayed: u64,
    /// That did not pass.
    pub refused: u64,
}

impl Tally {
    /// Counts one.
    pub fn count(&mut self, verdict: Verdict) {
        self.offered += 1;
        match verdict {
            Verdict::Admit => self.admitted += 1,
            Verdict::Delay { .. } => self.delayed += 1,
            Verdict::Refuse { .. } => self.refused += 1,
        }
    }

    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            offered: self.offered - before.offered,
            admitted: self.admitted - before.admitted,
            delayed: self.delayed - before.delayed,
            refused: self.refused - before.refused,
        }
    }
}

/// Records on their way to Kafka. Nobody is kept waiting: what finds no room is counted.
pub struct Sender {
    producer: ThreadedProducer<DefaultProducerContext>,
    /// Records that found no room.
    pub dropped: u64,
}

impl Sender {
    /// A sender.
    ///
    /// # Errors
    /// Settings that the client does not take.
    pub fn new(kafka: &kafka::Settings) -> Result<Self, String> {
        kafka.check()?;
        let mut config = kafka.client("gateway");
        config.set("linger.ms", "5").set("compression.type", "lz4");
        let producer = config.create().map_err(|e| e.to_string())?;
        Ok(Self { producer, dropped: 0 })
    }

    /// Sends a record.
    pub fn send(&mut self, topic: &str, key: &str, value: &str) {
        if self.producer.send(BaseRecord::to(topic).key(key).payload(value)).is_err() {
            self.dropped += 1;
        }
    }

    /// Waits for what is under way, at most so long.
    pub fn flush(&self, patience: Duration) {
        // What is not taken by then is lost with us.
        let _ = self.producer.flush(patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barrage_edge::Reason;

    #[test]
    fn tallies_add_up() {
        let mut tally = Tally::default();
        let before = tally;
        let refuse = Verdict::Refuse { reason: Reason::RoomBusy, retry_after_ms: 1 };
        for verdict in [Verdict::Admit, Verdict::Delay { ms: 1 }, refuse, refuse] {
            tally.count(verdict);
        }
        let since = tally.since(&before);
        assert_eq!((since.offered, since.refused), (4, 2));
        assert_eq!(since.offered, since.admitted + since.delayed + since.refused);
        assert!(duration("0s").is_err() && duration("x").is_err() && duration("2min").is_ok());
    }
}
