//! Processor time, wall time and memory of this process, as Linux counts them.

use std::fs;
use std::time::Instant;

/// Linux tells processor time in hundredths of a second, whatever the kernel ticks by.
const TICKS: f64 = 100.0;

/// A measurement under way.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    started: Instant,
    cpu: f64,
}

/// What was used since the measurement began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds of processor time, all threads together, ended ones too; in steps of 10 ms.
    pub cpu_seconds: f64,
    /// Seconds by the clock.
    pub wall_seconds: f64,
    /// Most memory resident at once since the process began, in bytes; 0 where it is not told.
    pub peak_rss_bytes: u64,
}

impl Meter {
    /// Begins to measure.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now(), cpu: cpu_seconds() }
    }

    /// What was used so far.
    #[must_use]
    pub fn read(&self) -> Cost {
        Cost {
            cpu_seconds: cpu_seconds() - self.cpu,
            wall_seconds: self.started.elapsed().as_secs_f64(),
            peak_rss_bytes: status_bytes("VmHWM:"),
        }
    }
}

impl Cost {
    /// Seconds of processor time per million events; 0 without events.
    #[must_use]
    pub fn cpu_s_per_million(&self, events: u64) -> f64 {
        if events == 0 { 0.0 } else { self.cpu_seconds * 1e6 / events as f64 }
    }

    /// Events per second of processor time; 0 where less than a tick was used.
    #[must_use]
    pub fn events_per_cpu_second(&self, events: u64) -> f64 {
        if self.cpu_seconds <= 0.0 { 0.0 } else { events as f64 / self.cpu_seconds }
    }
}

/// User and system time of this process: fields 14 and 15 of its `stat`, counted behind the name in parentheses.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after.split_whitespace().skip(11).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Processor time of this process, all threads together, to the nanosecond.
#[must_use]
pub fn cpu_seconds_exact() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A size from this process's `status`, in bytes.
#[must_use]
pub fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen_in_processor_time() {
        let meter = Meter::start();
        let mut x = 1_u64;
        while meter.read().cpu_seconds < 0.03 {
            for _ in 0..100_000 {
                x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005));
            }
        }
        let cost = meter.read();
        assert!(cost.wall_seconds > 0.0 && cost.peak_rss_bytes > 1 << 20, "{cost:?}");
        assert!(cost.cpu_s_per_million(1_000_000) >= 0.03);
        assert_eq!(Cost::default().events_per_cpu_second(5), 0.0);
    }
}
