//! The workloads, and with what each is measured.

use std::time::Duration;

use serde_json::{Value, json};

use crate::load::{Load, Work};
use crate::peer::Subject;
use crate::peers;

/// A workload with the races it is made of.
pub struct Workload {
    /// Its name in the figures.
    pub name: &'static str,
    /// What it measures, and about how long a run with defaults takes.
    pub about: &'static str,
    /// Its races.
    pub races: Vec<Plan>,
}

/// One race. Those with several loads give each contestant one of them, in the same rounds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is done.
    pub loads: Vec<Load>,
    /// At how many threads.
    pub threads: usize,
    /// By how much each sync is longer.
    pub slow_sync: Duration,
    /// What tells this race from others with as many threads.
    pub variant: &'static str,
    /// Who takes part.
    pub peers: fn(&Subject) -> bool,
    /// Length of a slice in seconds, unless another one is asked for.
    pub slice: f64,
    /// Rounds, unless another number is asked for.
    pub rounds: usize,
    /// Whether the numbers of remembered keys are what it is about.
    pub grows: bool,
}

impl Plan {
    fn new(work: Work, records: u64, threads: usize) -> Plan {
        Plan {
            loads: vec![Load {
                work,
                ..Load::new(records)
            }],
            threads,
            slow_sync: Duration::ZERO,
            variant: "",
            peers: |subject| subject.group != peers::sprag::LARGE_HALVES.group,
            slice: 0.5,
            rounds: 7,
            grows: false,
        }
    }

    /// What tells this race from others of its workload, as it stands in the figures.
    pub fn facts(&self, load: &Load) -> Value {
        let keys = match load.work {
            _ if self.grows => json!(load.keys),
            Work::Get | Work::GetInRead | Work::Scan => json!(load.records),
            _ => Value::Null,
        };
        json!({
            "threads": self.threads,
            "value_bytes": load.value_bytes,
            "slow_sync_ms": self.slow_sync.as_millis() as u64,
            "keys": keys,
            "variant": self.variant,
        })
    }

    /// What a rate of it counts.
    pub fn unit(&self) -> &'static str {
        match self.loads.first().map(|load| load.work) {
            Some(Work::Get | Work::GetInRead) => "gets/s",
            Some(Work::Scan) => "scans/s",
            Some(Work::Duplicate) => "answers/s",
            Some(Work::Enqueue | Work::Deliver | Work::DeliverLots) => "messages/s",
            _ => "commits/s",
        }
    }

    /// For people.
    pub fn title(&self) -> String {
        let mut text = match self.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        if let Some(load) = self.loads.first() {
            text += &format!(", values of {} B", load.value_bytes);
        }
        if !self.slow_sync.is_zero() {
            text += &format!(", syncs {:?} slower", self.slow_sync);
        }
        if !self.variant.is_empty() {
            text += &format!(", {}", self.variant);
        }
        text
    }
}

/// Records before the first commit.
const RECORDS: u64 = 100_000;
/// So many records of 100 bytes are far below every cache, and so many far above.
const WARM: u64 = 20_000;
const LARGE: u64 = 1_000_000;
/// Messages that wait before each slice, and the length of their payloads.
const MESSAGES: u64 = 100_000;
const MESSAGE_BYTES: usize = 200;
/// Steps that are there to be delivered again.
const DELIVERED: u64 = 20_000;

/// All workloads; the hot commit first, since others are compared with it.
pub fn workloads() -> Vec<Workload> {
    vec![
        Workload {
            name: "hot-commit",
            about: "a conditional write, a new remembered key and one more record in one commit (6 minutes)",
            races: hot(),
        },
        Workload {
            name: "duplicate",
            about: "the same step delivered again, answered without a sync (2 minutes)",
            races: threads(&[1, 8], |threads| {
                let mut plan = without_floor(Plan::new(Work::Duplicate, RECORDS, threads));
                plan.loads[0].done = DELIVERED;
                plan
            }),
        },
        Workload {
            name: "put-if",
            about: "a conditional write alone (3 minutes)",
            races: threads(&[1, 8, 64], |threads| Plan::new(Work::PutIf, RECORDS, threads)),
        },
        Workload {
            name: "transition",
            about: "a record moves from one state to the next (3 minutes)",
            races: threads(&[1, 8, 64], |threads| Plan::new(Work::Transition, RECORDS, threads)),
        },
        Workload {
            name: "get",
            about: "a record by its key, each in a transaction of its own (4 minutes)",
            races: reads(Work::Get),
        },
        Workload {
            name: "get-in-read",
            about: "the same, a hundred within one transaction (4 minutes)",
            races: reads(Work::GetInRead),
        },
        Workload {
            name: "scan",
            about: "a thousand records in the order of their keys, from one on (4 minutes)",
            races: reads(Work::Scan),
        },
        Workload {
            name: "hot-record",
            about: "one number that all threads count up (1 minute)",
            races: threads(&[64], |threads| Plan::new(Work::Count, 1, threads)),
        },
        Workload {
            name: "enqueue",
            about: "one message for each commit (2 minutes)",
            races: threads(&[1, 8, 64], |threads| messages(Work::Enqueue, threads)),
        },
        Workload {
            name: "deliver",
            about: "one message is claimed and then acknowledged, in two commits (2 minutes)",
            races: threads(&[1, 8, 64], |threads| messages(Work::Deliver, threads)),
        },
        Workload {
            name: "deliver-lots",
            about: "a hundred messages are acknowledged and the next hundred claimed, in one commit (2 minutes)",
            races: threads(&[1, 8, 64], |threads| messages(Work::DeliverLots, threads)),
        },
        Workload {
            name: "growth",
            about: "the hot commit with 10 thousand, 1 million and 10 million remembered keys (10 minutes and the filling)",
            races: threads(&[1, 8], growth),
        },
    ]
}

fn threads(counts: &[usize], plan: impl Fn(usize) -> Plan) -> Vec<Plan> {
    counts.iter().map(|threads| plan(*threads)).collect()
}

fn without_floor(plan: Plan) -> Plan {
    Plan {
        peers: |subject| !["floor", peers::sprag::LARGE_HALVES.group].contains(&subject.group),
        slice: 0.3,
        ..plan
    }
}

fn hot() -> Vec<Plan> {
    let mut plans = threads(&[1, 8, 64], |threads| Plan {
        peers: |_| true,
        ..Plan::new(Work::Hot, RECORDS, threads)
    });
    // With 4 KiB a store of as many records would be mostly the copying of it.
    plans.extend(threads(&[1, 8], |threads| {
        let mut plan = Plan::new(Work::Hot, RECORDS / 5, threads);
        plan.loads[0].value_bytes = 4096;
        plan
    }));
    plans.extend(threads(&[1, 8], |threads| Plan {
        slow_sync: Duration::from_millis(2),
        peers: |subject| {
            subject.durability == crate::peer::Durability::Sync && subject.group != peers::sprag::LARGE_HALVES.group
        },
        ..Plan::new(Work::Hot, RECORDS, threads)
    }));
    plans
}

/// Of those who take part, Sprag has queues, and of SQLite a table makes one. A slice is so short that no queue runs dry.
fn messages(work: Work, threads: usize) -> Plan {
    let mut plan = Plan {
        peers: |subject| {
            subject.durability == crate::peer::Durability::Sync
                && ["sprag", "sqlite", "sqlite grouped"].contains(&subject.group)
        },
        slice: 0.3,
        ..Plan::new(work, MESSAGES, threads)
    };
    plan.loads[0].value_bytes = MESSAGE_BYTES;
    plan
}

/// Reading does not depend on how writes are made durable, nor on a group.
fn reads(work: Work) -> Vec<Plan> {
    let plan = |threads, records, value_bytes, variant| {
        let mut plan = Plan {
            peers: |subject| {
                subject.durability == crate::peer::Durability::Sync
                    && ![
                        "floor",
                        "sqlite grouped",
                        "fjall grouped",
                        peers::sprag::LARGE_HALVES.group,
                    ]
                    .contains(&subject.group)
            },
            variant,
            slice: 0.4,
            ..Plan::new(work, records, threads)
        };
        plan.loads[0].value_bytes = value_bytes;
        plan
    };
    let mut plans = Vec::new();
    for threads in [1, 8] {
        plans.push(plan(threads, WARM, 100, "warm"));
        plans.push(plan(threads, LARGE, 100, "larger than the cache"));
    }
    plans.push(plan(8, LARGE / 20, 4096, "larger than the cache"));
    plans
}

fn growth(threads: usize) -> Plan {
    let load = |keys| Load {
        keys,
        ..Load::new(RECORDS)
    };
    Plan {
        loads: [10_000, 1_000_000, 10_000_000].map(load).to_vec(),
        peers: |subject| {
            subject.durability == crate::peer::Durability::Sync && ["sprag", "sqlite"].contains(&subject.group)
        },
        slice: 3.0,
        rounds: 5,
        grows: true,
        ..Plan::new(Work::Hot, RECORDS, threads)
    }
}

/// The same, so short that it only shows whether everything works.
pub fn quick(plan: Plan) -> Plan {
    let shorter = |load: &Load| Load {
        records: load.records.min(if load.delivers() { 30_000 } else { 5_000 }),
        keys: load.keys / 1000,
        done: load.done.min(1_000),
        ..*load
    };
    Plan {
        loads: plan.loads.iter().map(shorter).collect(),
        slice: 0.05,
        rounds: 2,
        ..plan
    }
}
