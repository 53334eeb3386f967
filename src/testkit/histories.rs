//! The histories that a handler is put through, short ones first.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use super::director::End;
use super::far_end::When;
use super::proof::{Once, Proof, Size};
use super::report::{Broken, Proved, Rule};
use super::trial::{About, Trial, mixed};
use crate::ManualClock;
use crate::disk::crash::CrashPlan;
use crate::disk::fault::FaultKind;
use crate::disk::sim::SimDisk;

/// Most orders that are tried of two copies at the same time; handlers of a few calls have fewer.
const ORDERS_MAX: usize = 600;
/// Most copies at the same time.
const COPIES_MAX: usize = 16;
/// Orders drawn for each number of copies.
const ORDERS_DRAWN: u64 = 5;
const YEAR: i64 = 365 * 86_400;

const REPEATS: About = About {
    state: Rule::FindRepeats,
    answer: Rule::RememberResult,
};
const CUT_SHORT: About = About {
    state: Rule::OneCommit,
    answer: Rule::RememberResult,
};
const FAILS: About = About {
    state: Rule::PassErrorsOn,
    answer: Rule::PassErrorsOn,
};
const AT_ONCE: About = About {
    state: Rule::LookAndWrite,
    answer: Rule::RememberResult,
};
const LATE: About = About {
    state: Rule::LateRepeat,
    answer: Rule::RememberResult,
};
const CLOCKS: About = About {
    state: Rule::KeepLongEnough,
    answer: Rule::KeepLongEnough,
};

/// What all histories share.
struct All<'p, 'h, M, R, E> {
    proof: &'p Proof<'h, M, R, E>,
    founded: SimDisk,
    once: Once<R>,
    size: Size,
    tried: u64,
}

type Outcome = Result<(), Box<Broken>>;

pub(super) fn all<M, R, E>(proof: &Proof<'_, M, R, E>) -> Result<Proved, Box<Broken>>
where
    M: Sync,
    R: PartialEq + Debug + Send,
    E: Debug + Send,
{
    let founded = proof.founded()?;
    let (once, size) = proof.reference(&founded)?;
    let mut all = All {
        proof,
        founded,
        once,
        size,
        tried: 0,
    };
    all.repeats(2)?;
    all.stops()?;
    all.hang_ups()?;
    all.disk_ends()?;
    all.two_at_once()?;
    all.disk_fails()?;
    all.repeats(3)?;
    all.clocks()?;
    all.among()?;
    all.others_at_once()?;
    all.many_at_once()?;
    all.repeats(11)?;
    Ok(Proved {
        histories: all.tried,
        effects: all.once.effects.values().sum(),
    })
}

impl<'p, 'h, M, R, E> All<'p, 'h, M, R, E>
where
    M: Sync,
    R: PartialEq + Debug + Send,
    E: Debug + Send,
{
    fn trial(&mut self) -> Result<Trial<'p, 'h, M, R, E>, Box<Broken>> {
        self.tried += 1;
        Trial::new(self.proof, &self.founded, None)
    }

    /// The same message again and again, on one store and with a reopen before each repeat.
    fn repeats(&mut self, times: u64) -> Outcome {
        for reopens in [false, true] {
            let mut trial = self.trial()?;
            for repeat in 0..times {
                if reopens && repeat > 0 {
                    trial.reopen(|_| ())?;
                    trial.step("the store is closed and opened again");
                }
                trial.deliver_until_answered(0);
            }
            trial.judge(&self.once, REPEATS)?;
        }
        Ok(())
    }

    /// Stopped between any two calls, by a panic, a kill and a power loss; then delivered again.
    fn stops(&mut self) -> Outcome {
        let points = self.size.points.clone();
        for (point, place) in points.iter().enumerate() {
            for (end, what) in [
                (End::Panic, "the handler panics"),
                (End::Kill, "the process is killed"),
                (End::PowerLoss, "the power fails"),
            ] {
                let mut trial = self.trial()?;
                let told = trial.deliver(0, Some((point as u64, end)));
                trial.step(format!("delivered, and {what} {place}"));
                trial.heard(0, told);
                trial.recover()?;
                trial.deliver_until_answered(0);
                trial.judge(&self.once, CUT_SHORT)?;
            }
        }
        Ok(())
    }

    /// The machine ends at each call of the disk.
    fn disk_ends(&mut self) -> Outcome {
        let plans = [
            (None, "the process is killed"),
            (Some(CrashPlan::DropAll), "the power fails"),
            (
                Some(CrashPlan::KeepAll),
                "the power fails, and what was not synced is there all the same",
            ),
            (
                Some(CrashPlan::Random { keep_percent: 50 }),
                "the power fails, and some of what was not synced is there",
            ),
        ];
        for event in 0..self.size.events {
            for (plan, what) in plans {
                let mut trial = self.trial()?;
                let told = trial.deliver_until_event(0, event, plan);
                trial.step(format!("delivered, and {what} at call {} of the disk", event + 1));
                trial.heard(0, told);
                trial.recover()?;
                trial.deliver_until_answered(0);
                trial.judge(&self.once, CUT_SHORT)?;
            }
        }
        Ok(())
    }

    /// The disk fails from each of its calls on, and works again after the delivery. Whoever is told an error delivers again.
    fn disk_fails(&mut self) -> Outcome {
        for kind in [
            FaultKind::WriteSynced,
            FaultKind::WriteSyncedLanded,
            FaultKind::WriteSyncedLost,
            FaultKind::Sync,
            FaultKind::Write,
        ] {
            for event in 0..self.size.events {
                let mut trial = self.trial()?;
                let Some(told) = trial.deliver_on_failing_disk(0, kind, event) else {
                    // No more calls of this kind.
                    self.tried -= 1;
                    break;
                };
                trial.step(format!(
                    "delivered, and the disk fails ({kind:?}) behind {event} such calls"
                ));
                let about = if trial.heard(0, told) {
                    FAILS
                } else {
                    trial.deliver_until_answered(0);
                    REPEATS
                };
                trial.judge(&self.once, about)?;
            }
        }
        Ok(())
    }

    /// The far end hangs up at each call, before and after it has applied the effect, or is down for the whole delivery.
    fn hang_ups(&mut self) -> Outcome {
        for call in 0..self.size.calls {
            for (when, what) in [
                (When::Before, "hangs up before it applied"),
                (When::After, "hangs up after it applied"),
                (When::Down, "is down from before"),
            ] {
                self.tried += 1;
                let mut trial = Trial::new(self.proof, &self.founded, Some((call, when)))?;
                let told = trial.deliver(0, None);
                trial.step(format!("delivered, and the far end {what} effect {}", call + 1));
                trial.far_end_recovers();
                if !trial.heard(0, told) {
                    trial.deliver_until_answered(0);
                }
                trial.judge(&self.once, CUT_SHORT)?;
                trial.deliver_until_answered(0);
                trial.judge(&self.once, CUT_SHORT)?;
            }
        }
        Ok(())
    }

    /// Two copies at the same time, in every order of their calls; those with fewer changes of turn come first.
    fn two_at_once(&mut self) -> Outcome {
        self.orders_of(&[0, 0], ORDERS_MAX, |all, trial| trial.judge(&all.once, AT_ONCE))
    }

    /// Another message at the same time: the end must be that of one after the other, in some order.
    fn others_at_once(&mut self) -> Outcome {
        for other in 1..self.proof.messages.len() {
            let orders = [[0, other], [other, 0]];
            let onces = orders.map(|order| self.proof.once(&self.founded, &order));
            // Messages that build upon each other are not sent at the same time.
            let [Ok((forth, _)), Ok((back, _))] = onces else {
                continue;
            };
            self.orders_of(&[0, other], ORDERS_MAX / 4, |_, trial| {
                trial.judge(&back, AT_ONCE).or_else(|_| trial.judge(&forth, AT_ONCE))
            })?;
        }
        Ok(())
    }

    /// Two messages at the same time, in the orders of their calls.
    fn orders_of(
        &mut self,
        messages: &[usize],
        orders_max: usize,
        judge: impl Fn(&Self, &Trial<'p, 'h, M, R, E>) -> Outcome,
    ) -> Outcome {
        let mut open = VecDeque::from([Vec::new()]);
        for _ in 0..orders_max {
            let Some(prefix) = open.pop_front() else { break };
            let mut trace: Vec<(usize, usize)> = Vec::new();
            let choose = |ready: &[usize]| {
                let choice = prefix.get(trace.len()).copied().unwrap_or(0);
                trace.push((choice, ready.len()));
                choice
            };
            let trial = self.at_once(messages, choose)?;
            judge(self, &trial)?;
            for place in prefix.len()..trace.len() {
                let choices = trace.get(place).map_or(0, |(_, choices)| *choices);
                for choice in 1..choices {
                    let mut next: Vec<usize> = trace.iter().take(place).map(|(choice, _)| *choice).collect();
                    next.push(choice);
                    open.push_back(next);
                }
            }
        }
        Ok(())
    }

    /// 3 to 16 copies at the same time: each waits for all others at every call, and orders that the seed draws.
    fn many_at_once(&mut self) -> Outcome {
        for copies in 3..=COPIES_MAX {
            let messages = vec![0; copies];
            self.at_once(&messages, next_in_turn)?.judge(&self.once, AT_ONCE)?;
            for number in 0..ORDERS_DRAWN {
                let mut word = mixed(self.proof.seed, (copies as u64) << 32 | number);
                let draw = |ready: &[usize]| {
                    // A linear congruential generator; the upper bits are the good ones.
                    word = word
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (word >> 33) as usize % ready.len().max(1)
                };
                self.at_once(&messages, draw)?.judge(&self.once, AT_ONCE)?;
            }
        }
        Ok(())
    }

    /// Delivers messages at the same time, and those again that were not answered.
    fn at_once(
        &mut self,
        messages: &[usize],
        mut choose: impl FnMut(&[usize]) -> usize,
    ) -> Result<Trial<'p, 'h, M, R, E>, Box<Broken>> {
        let mut trial = self.trial()?;
        let mut turns = Vec::new();
        let told = trial.deliver_at_once(messages, |ready| {
            let choice = choose(ready);
            turns.extend(ready.get(choice).or(ready.first()).map(|copy| (copy + 1).to_string()));
            choice
        });
        let what = match messages {
            [0, other] if *other != 0 => format!("message 1 and message {} delivered at the same time", other + 1),
            _ => format!("delivered {} times at the same time", messages.len()),
        };
        trial.step(format!(
            "{what}; they go on to their next call in this order: {}",
            turns.join(" ")
        ));
        trial.names = messages.iter().any(|message| *message != 0);
        let mut unanswered: Vec<usize> = Vec::new();
        for (message, told) in told {
            if !trial.heard(message, told) && !unanswered.contains(&message) {
                unanswered.push(message);
            }
        }
        for message in unanswered {
            trial.deliver_until_answered(message);
        }
        Ok(trial)
    }

    /// A repeat after clocks went wrong, and one that is as late as can be.
    fn clocks(&mut self) -> Outcome {
        type Change = fn(&ManualClock, Duration);
        let changes: [(&str, bool, Change); 7] = [
            ("the wall clock is set back by a year", false, |clock, _| {
                clock.jump_wall_secs(-YEAR);
            }),
            ("the wall clock is set forward by thirty years", false, |clock, _| {
                clock.jump_wall_secs(30 * YEAR);
            }),
            (
                "the longest time passes after which a repeat can come",
                false,
                |clock, late| clock.advance(late),
            ),
            (
                "the store is closed, the wall clock is set back by a day, and it is opened again",
                true,
                |clock, _| clock.jump_wall_secs(-86_400),
            ),
            (
                "the store is closed, the wall clock is set forward by thirty years, and it is opened again",
                true,
                |clock, _| clock.jump_wall_secs(30 * YEAR),
            ),
            (
                "the store is closed, the machine starts again in 1970, and it is opened again",
                true,
                |clock, _| {
                    clock.reboot();
                    clock.set_wall_ns(0);
                },
            ),
            (
                "the store is closed for the longest time after which a repeat can come, and opened again",
                true,
                |clock, late| clock.advance(late),
            ),
        ];
        for (what, closes, change) in changes {
            let mut trial = self.trial()?;
            trial.deliver_until_answered(0);
            let late = trial.late();
            if closes {
                trial.reopen(|clock| change(clock, late))?;
            } else {
                change(&trial.clock, late);
            }
            trial.step(what);
            trial.deliver_until_answered(0);
            trial.judge(&self.once, CLOCKS)?;
        }
        Ok(())
    }

    /// Among other messages: a repeat comes after them, and they come again.
    fn among(&mut self) -> Outcome {
        let others: Vec<usize> = (1..self.proof.messages.len()).collect();
        let mut orders: Vec<Vec<usize>> = Vec::new();
        for &other in &others {
            orders.extend([vec![0, other, 0], vec![other, 0, other], vec![0, other, other, 0]]);
        }
        if others.len() > 1 {
            let forth = [&[0], &others[..]].concat();
            let back: Vec<usize> = forth.iter().rev().copied().collect();
            orders.extend([[&forth[..], &back[..]].concat(), [&back[..], &forth[..]].concat()]);
        }
        for order in orders {
            let mut firsts: Vec<usize> = Vec::new();
            for &message in &order {
                if !firsts.contains(&message) {
                    firsts.push(message);
                }
            }
            // Messages that build upon each other cannot come first in every order; a sender keeps what is refused.
            let Ok((once, _)) = self.proof.once(&self.founded, &firsts) else {
                continue;
            };
            let mut trial = self.trial()?;
            trial.names = true;
            for message in order {
                trial.deliver_until_answered(message);
            }
            trial.judge(&once, LATE)?;
        }
        Ok(())
    }
}

/// The copy behind the one that ran last, so that each waits for all others at every call. That one is the first of `ready` if
/// it is there, and the rest is in order.
fn next_in_turn(ready: &[usize]) -> usize {
    let Some((last, others)) = ready.split_first() else {
        return 0;
    };
    match others.iter().position(|copy| copy > last) {
        Some(place) => place + 1,
        None => usize::from(!others.is_empty()),
    }
}
