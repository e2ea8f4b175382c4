//! What the probes say: alive while the loop turns, started once the first round is through, ready once this controller
//! leads or follows closely enough to take over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A loop that has not turned for so long is dead.
const STILL: Duration = Duration::from_secs(30);

/// How a controller is.
#[derive(Debug)]
pub struct Health {
    began: Instant,
    /// Milliseconds from `began` to the last round.
    turned: AtomicU64,
    started: AtomicBool,
    /// Why it is not ready; none: it is.
    unready: Mutex<Option<String>>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            turned: AtomicU64::new(0),
            started: AtomicBool::new(false),
            unready: Mutex::new(Some("it has just begun".into())),
        }
    }
}

impl Health {
    /// The loop has turned once more.
    pub fn turn(&self) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.turned.store(ms, Ordering::Relaxed);
    }

    /// Everything is connected, and the state taken up.
    pub fn started(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    /// Whether it could lead by now, and if not, why.
    pub fn ready(&self, why_not: Option<String>) {
        *self.unready.lock().unwrap_or_else(PoisonError::into_inner) = why_not;
    }

    /// How long the loop has not turned.
    #[must_use]
    pub fn still_for(&self) -> Duration {
        let turned = Duration::from_millis(self.turned.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(turned)
    }

    /// Whether the loop turns.
    ///
    /// # Errors
    /// Since when it does not.
    pub fn is_alive(&self) -> Result<(), String> {
        let still = self.still_for();
        if still < STILL {
            Ok(())
        } else {
            Err(format!("nothing has moved for {} s", still.as_secs()))
        }
    }

    /// Whether it has started.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Whether it leads, or could.
    ///
    /// # Errors
    /// Why not.
    pub fn is_ready(&self) -> Result<(), String> {
        match self.unready.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}
