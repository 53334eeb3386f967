//! `outbox watch`: the figures of queues as they change, seen from outside of the process that changes them.

use sprag::Store;

use super::args::WatchArgs;
use super::show::{Figures, figures};
use crate::answer::{Answer, Lines};
use crate::failure::Failure;

pub fn watch(store: &Store, args: &WatchArgs, json: bool) -> Result<Answer, Failure> {
    let mut lines = Lines::new(json);
    let outcome = follow(store, args, &mut lines);
    lines.finish(outcome)
}

fn follow(store: &Store, args: &WatchArgs, lines: &mut Lines) -> Result<(), Failure> {
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut before: Vec<Figures> = Vec::new();
    loop {
        match figures(store, args.queue.as_deref()) {
            Ok(now) => {
                for figures in &now {
                    if before.iter().any(|known| figures.is_as(known)) {
                        continue;
                    }
                    lines.push(figures, || figures.text())?;
                    left -= 1;
                    if left == 0 {
                        return Ok(());
                    }
                }
                lines.flush()?;
                before = now;
            }
            // The process that writes was started anew under the look: the next one is of its state.
            Err(failure) if failure.is_busy() => {}
            Err(failure) => return Err(failure),
        }
        // Another process cannot ring a bell here.
        std::thread::sleep(args.every);
    }
}
