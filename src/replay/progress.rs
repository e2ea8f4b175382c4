//! How far a long run is, on a terminal; elsewhere nothing is drawn.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar on stderr.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    total: u64,
    shown: bool,
}

impl Bar {
    /// A bar of `total` bytes (0: not known, as of a pipe); only where stderr is a terminal.
    #[must_use]
    pub fn new(total: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        let bar = if total == 0 { ProgressBar::no_length() } else { ProgressBar::new(total) };
        let target = if shown {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        bar.set_draw_target(target);
        let template = if total == 0 {
            "  {spinner} {msg}"
        } else {
            "  {bar:32} {percent:>3} %  {msg}  {eta} left"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        Self { bar, total, shown }
    }

    /// Whether anything is drawn.
    #[must_use]
    pub fn shown(&self) -> bool {
        self.shown
    }

    /// Shows bytes read, events read, and how many a second.
    pub fn at(&self, bytes: u64, events: u64) {
        if !self.shown {
            return;
        }
        let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
        let rate = (events as f64 / seconds) as u64;
        self.bar.set_position(bytes.min(self.total.max(bytes)));
        let events = super::text::thousands(events);
        self.bar.set_message(format!("{events} events, {}/s", super::text::thousands(rate)));
    }

    /// Prints a line above the bar.
    pub fn say(&self, line: &str) {
        if self.shown {
            self.bar.println(line);
        } else {
            eprintln!("{line}");
        }
    }

    /// Removes the bar.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
