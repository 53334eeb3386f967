//! Shows on a terminal that long work goes on.
//!
//! On stderr, and only if that is a terminal. It is gone once the work is done, so that nothing of it stands between answers.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const EVERY: Duration = Duration::from_millis(100);

/// A line that says what is being done. Dropping it takes it away.
pub struct Progress(ProgressBar);

impl Progress {
    /// For work whose end cannot be foreseen.
    pub fn of(what: &'static str) -> Progress {
        let progress = Progress::with("{spinner} {msg}");
        progress.now(what);
        progress.0.enable_steady_tick(EVERY);
        progress
    }

    /// For work that is counted. `hidden` where something else shows that it goes on.
    pub fn counting(what: &'static str, hidden: bool) -> Progress {
        let progress = Progress::with("{spinner} {pos} {msg}");
        if hidden {
            progress.0.set_draw_target(ProgressDrawTarget::hidden());
        }
        progress.now(what);
        progress
    }

    fn with(template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // The template is a constant, and one that is none would show the default line.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// What is being done from now on.
    pub fn now(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    /// One more is done.
    pub fn count(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
