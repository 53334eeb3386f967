//! Every mixture of votes, delivered once, twice and late.

use std::cell::Cell;

use sprag::internals::{Ballot, BatchVerdict, Vote, decide_batch};
use sprag::{Batch, CodecId, Condition, DynQueue, Keep, OnceKey, Outcome, Store, WriteTx};

use super::{BALANCES, CARTS, ORDERS, Stage, words};
use crate::common::small;

/// What an operation says, in the letters of the rule: c is a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Holds,
    CheckHolds,
    Already,
    Fails,
    /// No vote, and something to write.
    Writes,
    /// No vote, and nothing to write.
    Idle,
}

use Says::{Already, CheckHolds, Fails, Holds, Idle, Writes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Applied,
    AlreadySo,
    Rejected,
}

/// The rule in the words of its documentation.
fn expected(says: &[Says]) -> Answer {
    let votes: Vec<Says> = says
        .iter()
        .copied()
        .filter(|says| !matches!(says, Writes | Idle))
        .collect();
    if votes.contains(&Fails) {
        Answer::Rejected
    } else if votes.iter().all(|vote| matches!(vote, Holds | CheckHolds)) {
        Answer::Applied
    } else if says.iter().all(|says| matches!(says, Already | Idle | CheckHolds)) {
        Answer::AlreadySo
    } else {
        Answer::Rejected
    }
}

#[test]
fn votes_are_counted_by_the_rule() {
    let ballot = |letter: char| {
        let (vote, already) = match letter {
            'h' => (Some(Vote::Holds), false),
            'c' => (Some(Vote::Holds), true),
            'a' => (Some(Vote::Already), true),
            'f' => (Some(Vote::Fails), false),
            'w' => (None, false),
            'i' => (None, true),
            _ => panic!("no such letter"),
        };
        Ballot { vote, already }
    };
    let table = [
        (
            BatchVerdict::Apply,
            "h c w i hh cc ww ii hc hw hi cw ci wi hcw hwi cwi hhh",
        ),
        (BatchVerdict::Already, "a aa ac ca ai ia aci cai iii_ aaa cca iia"),
        (
            BatchVerdict::Reject,
            "f ff fh fc fa fw fi hf wf ah ha aw wa haw cwa awi iaw hca faa aaf iif",
        ),
    ];
    for (verdict, rows) in table {
        for row in rows.split(' ').filter(|row| !row.ends_with('_')) {
            assert_eq!(decide_batch(row.chars().map(ballot)), verdict, "{row}");
        }
    }
}

/// A record as tests write it: value, version, state.
type Seen = Option<(i64, u64, &'static str)>;

/// One operation in one situation.
struct Kind {
    name: &'static str,
    /// The record before, and after the batch was applied.
    before: Seen,
    after: Seen,
    says: Says,
    verdict: &'static str,
    /// What the operation says to the record that it made.
    again: Says,
    /// What it says after somebody put 999 into its record.
    late: Says,
    /// The table in which its record lies.
    home: Home,
    add: fn(Batch, u64) -> Batch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    Balances,
    Carts,
    Orders,
    /// A queue of its own. The value of its record is how many messages are in it.
    Mail,
}

impl Home {
    fn read(self, store: &Store, key: u64) -> Seen {
        match self {
            Home::Balances => store
                .get(BALANCES, &key)
                .unwrap()
                .map(|r| (r.value, r.version.get(), "")),
            Home::Carts => store.get(CARTS, &key).unwrap().map(|r| (r.value, r.version.get(), "")),
            Home::Orders => store.get(ORDERS, &key).unwrap().map(|r| {
                let state = match r.state {
                    Stage::New => "new",
                    Stage::Packed => "packed",
                    Stage::Shipped => "shipped",
                };
                (r.value, r.version.get(), state)
            }),
            Home::Mail => {
                let stats = store.queue_stats(&mail(key)).unwrap();
                stats.map(|stats| (stats.ready as i64, 1, ""))
            }
        }
    }

    /// Makes the record by as many writes as its version says.
    fn prepare(self, tx: &mut WriteTx<'_>, key: u64, record: Seen) {
        let Some((value, number, state)) = record else { return };
        let moves: &[Stage] = match state {
            "packed" => &[Stage::New, Stage::Packed],
            "shipped" => &[Stage::New, Stage::Packed, Stage::Shipped],
            _ => &[],
        };
        let writes = number - moves.len().saturating_sub(1) as u64;
        for left in (0..writes).rev() {
            self.put(tx, key, value + left as i64);
        }
        for pair in moves.windows(2) {
            tx.transition(ORDERS, &key, pair[0], pair[1])
                .unwrap()
                .or_abort()
                .unwrap();
        }
    }

    fn put(self, tx: &mut WriteTx<'_>, key: u64, value: i64) {
        match self {
            Home::Balances => tx.put(BALANCES, &key, &value),
            Home::Carts => tx.put(CARTS, &key, &value),
            Home::Orders => tx.put(ORDERS, &key, &value),
            Home::Mail => panic!("nobody puts into a queue"),
        }
        .unwrap();
    }
}

/// The queue of one operation.
fn mail(key: u64) -> String {
    format!("mail {key}")
}

#[rustfmt::skip]
const KINDS: [Kind; 18] = [
    Kind { name: "check that holds", home: Home::Balances, before: Some((100, 7, "")), after: Some((100, 7, "")),
        says: CheckHolds, verdict: "holds", again: CheckHolds, late: CheckHolds,
        add: |batch, key| batch.check(BALANCES, &key, Condition::Present) },
    Kind { name: "check that fails", home: Home::Balances, before: None, after: None,
        says: Fails, verdict: "fails", again: Fails, late: Fails,
        add: |batch, key| batch.check(BALANCES, &key, Condition::Version(7)) },
    Kind { name: "check of nothing", home: Home::Balances, before: Some((100, 7, "")), after: Some((100, 7, "")),
        says: Idle, verdict: "unguarded", again: Idle, late: Idle,
        add: |batch, key| batch.check(BALANCES, &key, Condition::Any) },
    Kind { name: "put at its version", home: Home::Balances, before: Some((100, 7, "")), after: Some((140, 8, "")),
        says: Holds, verdict: "holds 8", again: Already, late: Fails,
        add: |batch, key| batch.put_if(BALANCES, &key, Condition::Version(7), &140) },
    Kind { name: "put where nothing is", home: Home::Balances, before: None, after: Some((140, 1, "")),
        says: Holds, verdict: "holds 1", again: Already, late: Fails,
        add: |batch, key| batch.put_if(BALANCES, &key, Condition::Absent, &140) },
    Kind { name: "put of what is there", home: Home::Balances, before: Some((140, 7, "")), after: Some((140, 7, "")),
        says: Already, verdict: "already 7", again: Already, late: Holds,
        add: |batch, key| batch.put_if(BALANCES, &key, Condition::Present, &140) },
    Kind { name: "put at another version", home: Home::Balances, before: Some((100, 9, "")), after: None,
        says: Fails, verdict: "fails 9", again: Fails, late: Fails,
        add: |batch, key| batch.put_if(BALANCES, &key, Condition::Version(7), &140) },
    Kind { name: "plain put", home: Home::Balances, before: Some((100, 7, "")), after: Some((140, 8, "")),
        says: Writes, verdict: "unguarded 8", again: Idle, late: Writes,
        add: |batch, key| batch.put(BALANCES, &key, &140) },
    Kind { name: "plain put of what is there", home: Home::Balances, before: Some((140, 7, "")), after: Some((140, 7, "")),
        says: Idle, verdict: "already 7", again: Idle, late: Writes,
        add: |batch, key| batch.put(BALANCES, &key, &140) },
    Kind { name: "delete at its version", home: Home::Carts, before: Some((100, 7, "")), after: None,
        says: Holds, verdict: "holds 7", again: Already, late: Fails,
        add: |batch, key| batch.delete_if(CARTS, &key, Condition::Version(7)) },
    Kind { name: "delete of nothing", home: Home::Carts, before: None, after: None,
        says: Already, verdict: "already", again: Already, late: Holds,
        add: |batch, key| batch.delete_if(CARTS, &key, Condition::Present) },
    Kind { name: "plain delete", home: Home::Carts, before: Some((100, 7, "")), after: None,
        says: Writes, verdict: "unguarded 7", again: Idle, late: Writes,
        add: |batch, key| batch.delete(CARTS, &key) },
    Kind { name: "delete at another version", home: Home::Balances, before: Some((100, 9, "")), after: None,
        says: Fails, verdict: "fails 9", again: Fails, late: Fails,
        add: |batch, key| batch.delete_if(BALANCES, &key, Condition::Version(7)) },
    Kind { name: "transition", home: Home::Orders, before: Some((100, 7, "new")), after: Some((100, 8, "packed")),
        says: Holds, verdict: "holds 8", again: Already, late: Already,
        add: |batch, key| batch.transition(ORDERS, &key, Stage::New, Stage::Packed) },
    Kind { name: "transition that was made", home: Home::Orders, before: Some((100, 7, "packed")),
        after: Some((100, 7, "packed")), says: Already, verdict: "already 7", again: Already, late: Already,
        add: |batch, key| batch.transition_with(ORDERS, &key, Stage::New, Stage::Packed, &100) },
    Kind { name: "transition that is late", home: Home::Orders, before: Some((100, 7, "shipped")), after: None,
        says: Fails, verdict: "fails 7 shipped late", again: Fails, late: Fails,
        add: |batch, key| batch.transition(ORDERS, &key, Stage::New, Stage::Packed) },
    Kind { name: "create in a state", home: Home::Orders, before: None, after: Some((140, 1, "packed")),
        says: Holds, verdict: "holds 1", again: Already, late: Fails,
        add: |batch, key| batch.create(ORDERS, &key, &140, &Stage::Packed) },
    Kind { name: "enqueue", home: Home::Mail, before: None, after: Some((1, 1, "")),
        says: Writes, verdict: "enqueued 1", again: Writes, late: Writes,
        add: |batch, key| batch.enqueue(&DynQueue::new(mail(key), CodecId::Bincode), &b"40 have come".to_vec()) },
];

/// The store and the places of one mixture: each operation has a record of its own.
struct Trial<'a> {
    store: &'a Store,
    kinds: &'a [&'a Kind],
    once: Option<OnceKey>,
    /// How often the batch must have been applied.
    applied: Cell<i64>,
}

impl Trial<'_> {
    fn label(&self) -> String {
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name).collect();
        format!("{names:?} once={}", self.once.is_some())
    }

    fn batch(&self) -> Batch {
        let empty = match &self.once {
            Some(key) => Batch::new().once(key),
            None => Batch::new(),
        };
        let places = self.kinds.iter().enumerate();
        places.fold(empty, |batch, (place, kind)| (kind.add)(batch, place as u64))
    }

    fn prepare(&self) {
        let prepared = self.store.write(|tx| {
            for (place, kind) in self.kinds.iter().enumerate() {
                kind.home.prepare(tx, place as u64, kind.before);
            }
            Ok::<_, sprag::Error>(())
        });
        prepared.unwrap();
        self.stands(|kind| kind.before);
    }

    /// Every record is what it should be.
    fn stands(&self, record: impl Fn(&Kind) -> Seen) {
        for (place, kind) in self.kinds.iter().enumerate() {
            let seen = kind.home.read(self.store, place as u64);
            let wanted = if kind.home == Home::Mail {
                self.sent()
            } else {
                record(kind)
            };
            assert_eq!(seen, wanted, "{} of {}", kind.name, self.label());
        }
    }

    /// What a queue of its own has: one more message each time.
    fn sent(&self) -> Seen {
        Some((self.applied.get(), 1, "")).filter(|(times, ..)| *times > 0)
    }

    fn says(&self, says: impl Fn(&Kind) -> Says) -> Answer {
        let says: Vec<Says> = self.kinds.iter().map(|kind| says(kind)).collect();
        expected(&says)
    }

    /// Tries, then delivers, and compares the two with each other and with what is expected.
    fn deliver(&self, expected: Answer, verdicts: Option<&[&str]>) {
        let batch = self.batch();
        let before = self.store.stats().unwrap().commits;
        let tried = self.store.dry_run(&batch).unwrap();
        assert_eq!(
            self.store.stats().unwrap().commits,
            before,
            "a dry run wrote, {}",
            self.label()
        );
        let outcome = self.store.apply(&batch).unwrap();
        assert_eq!(tried, outcome, "{}", self.label());
        let answer = match &outcome {
            Outcome::Applied { .. } => Answer::Applied,
            Outcome::Already { .. } => Answer::AlreadySo,
            Outcome::Rejected(_) => Answer::Rejected,
            Outcome::Repeat { .. } => panic!("a repeat, {}", self.label()),
        };
        assert_eq!(answer, expected, "{}", self.label());
        self.applied
            .set(self.applied.get() + i64::from(expected == Answer::Applied));
        if let Some(verdicts) = verdicts {
            let seen: Vec<String> = outcome.verdicts().iter().map(words).collect();
            assert_eq!(seen, verdicts, "{}", self.label());
        }
    }

    /// Delivers what is remembered: the answer of the first time, whatever stands now.
    fn repeat(&self, verdicts: &[&str]) {
        let batch = self.batch();
        let tried = self.store.dry_run(&batch).unwrap();
        let outcome = self.store.apply(&batch).unwrap();
        assert_eq!(tried, outcome, "{}", self.label());
        assert!(
            matches!(outcome, Outcome::Repeat { .. }),
            "{outcome:?} {}",
            self.label()
        );
        let seen: Vec<String> = outcome.verdicts().iter().map(words).collect();
        assert_eq!(seen, verdicts, "{}", self.label());
    }

    /// Somebody else's batch over the records of this one, where they can be written.
    fn overtake(&self) {
        let overtaken = self.store.write(|tx| {
            for (place, kind) in self.kinds.iter().enumerate() {
                if kind.says != Fails && kind.home != Home::Mail {
                    kind.home.put(tx, place as u64, 999);
                }
            }
            Ok::<_, sprag::Error>(())
        });
        overtaken.unwrap();
    }

    /// Delivered, delivered again, overtaken by others, delivered late.
    fn run(&self) {
        let verdicts: Vec<&str> = self.kinds.iter().map(|kind| kind.verdict).collect();
        self.prepare();
        let first = self.says(|kind| kind.says);
        self.deliver(first, Some(&verdicts));
        let after = |kind: &Kind| {
            if first == Answer::Applied {
                kind.after
            } else {
                kind.before
            }
        };
        self.stands(after);
        let remembered = self.once.is_some() && first != Answer::Rejected;
        let again = |kind: &Kind| {
            if first == Answer::Applied {
                kind.again
            } else {
                kind.says
            }
        };
        if remembered {
            self.repeat(&verdicts);
        } else if first == Answer::Rejected {
            self.deliver(first, Some(&verdicts));
        } else {
            self.deliver(self.says(again), None);
        }
        self.stands(after);
        self.overtake();
        let seen: Vec<Seen> = (0..self.kinds.len())
            .map(|place| self.kinds[place].home.read(self.store, place as u64))
            .collect();
        let late = self.says(|kind| match kind.name {
            // A put keeps the state, so this one still can be made if it was not made before.
            "transition" if first == Answer::Rejected => Holds,
            _ => kind.late,
        });
        if remembered {
            self.repeat(&verdicts);
        } else {
            self.deliver(late, None);
        }
        for (place, before) in seen.into_iter().enumerate() {
            let home = self.kinds[place].home;
            let now = home.read(self.store, place as u64);
            if home == Home::Mail {
                assert_eq!(now, self.sent(), "{}", self.label());
            } else if remembered || late != Answer::Applied {
                assert_eq!(now, before, "{}", self.label());
            }
        }
    }
}

#[test]
fn every_mixture_of_votes_is_judged_as_the_rule_says_once_twice_and_late() {
    let mut trials = 0;
    let mut run = |kinds: &[&Kind]| {
        for with_once in [false, true] {
            // A store of its own: a version of a new record goes by what was removed before.
            let store = small().checkpoints_in_line().in_memory().unwrap();
            let key = OnceKey::new("mixtures", "1", Keep::Forever);
            let once = with_once.then_some(key);
            Trial {
                store: &store,
                kinds,
                once,
                applied: Cell::new(0),
            }
            .run();
            trials += 1;
        }
    };
    for one in &KINDS {
        run(&[one]);
        for two in &KINDS {
            run(&[one, two]);
            for three in &KINDS {
                run(&[one, two, three]);
            }
        }
    }
    assert_eq!(trials, 2 * (18 + 18 * 18 + 18 * 18 * 18));
}
