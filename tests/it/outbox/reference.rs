//! What a queue is to do, written to be read: a list of messages that is gone through from its start each time, with no index,
//! no file and no leases beside it.

use sprag::{EffectId, Reason, Refused, Settled};

use super::model::Hands;

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    Behind,
    Waiting,
    Held { deadline: u64, given_back: bool },
    Dead(Reason),
}

/// Budgets of one message, and its delays.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub failures: u32,
    pub interruptions: u32,
    pub base: u64,
    pub cap: u64,
    pub age: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub id: u64,
    pub key: Option<Vec<u8>>,
    pub payload: String,
    pub headers: Vec<(String, String)>,
    pub budget: Budget,
    pub goes_on: bool,
    pub expires: Option<i64>,
    /// The remembered key of its enqueue, and whether that is over.
    pub once: Option<(String, bool)>,
    pub effect: Option<EffectId>,
    pub stand: Stand,
    pub due: i64,
    /// Grows with each message that begins to wait, or dies.
    pub since: u64,
    /// Its place in the line of its key; `None` for one that was passed.
    pub line: Option<u64>,
    /// The claim that is honoured.
    pub fence: u64,
    pub kept_until: Option<i64>,
    pub attempts: u32,
    pub failures: u32,
    pub interruptions: u32,
    pub replays: u32,
    pub aged_from: Option<i64>,
    pub errors: Vec<(u32, String)>,
}

/// An answer. Times in nanoseconds.
#[derive(Clone, Debug)]
pub enum Verb {
    Ack,
    /// With the time that the store says, if it is to be delivered again.
    Nack(Option<u64>, Option<i64>, String),
    Defer(i64),
    Release,
    Bury(String),
    /// By running time; in the file by the other.
    Extend(u64, Option<i64>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Stale,
    Done,
    Again(i64),
    Dead(Reason),
}

impl Told {
    pub fn of(settled: &Settled) -> Told {
        match settled {
            Settled::Stale => Told::Stale,
            Settled::Done => Told::Done,
            Settled::Again { at } => Told::Again(super::model::ns_of(*at)),
            Settled::Dead(reason) => Told::Dead(*reason),
        }
    }
}

/// Which dead letters.
#[derive(Clone, Debug, Default)]
pub struct Which {
    pub only: Option<Vec<u64>>,
    pub reason: Option<Reason>,
    pub limit: Option<usize>,
    pub per_second: Option<u32>,
    pub new_effects: bool,
    pub forced: bool,
}

/// One queue.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub at_most_once: bool,
    pub messages: Vec<Message>,
    pub hands: Hands,
    since: u64,
    places: u64,
    /// Due time of the message that was handed out last: nothing is placed before it, unless the clock goes back.
    handed: Option<i64>,
    pub paused: Option<i64>,
    paused_for: u64,
    pub stale: u64,
    pub interruptions: u64,
    pub discarded: u64,
}

impl Reference {
    fn at(&self, id: u64) -> Option<usize> {
        self.messages.iter().position(|message| message.id == id)
    }

    fn next_since(&mut self) -> u64 {
        self.since += 1;
        self.since
    }

    fn active(&self) -> i64 {
        let now = self.paused.map_or(self.hands.now, |since| since.min(self.hands.now));
        now - self.paused_for as i64
    }

    pub fn pause(&mut self, paused: bool) -> bool {
        match self.paused {
            None if paused => self.paused = Some(self.hands.now),
            Some(since) if !paused => {
                self.paused_for += u64::try_from(self.hands.now - since).unwrap_or(0);
                self.paused = None;
            }
            _ => return false,
        }
        true
    }

    /// Lets a message wait for a time.
    fn wait(&mut self, at: usize, due: i64) {
        let due = match self.handed {
            Some(handed) if handed <= self.hands.now => due.max(handed),
            Some(handed) if due < handed => {
                self.handed = Some(due);
                due
            }
            _ => due,
        };
        let since = self.next_since();
        let message = &mut self.messages[at];
        (message.stand, message.due, message.since) = (Stand::Waiting, due, since);
        (message.fence, message.kept_until) = (0, None);
    }

    /// Puts a message behind the others of its key, or lets it wait.
    fn join(&mut self, at: usize, due: i64) {
        self.places += 1;
        let place = self.places;
        let key = self.messages[at].key.clone();
        let is_behind = key.is_some() && self.first_of(key.as_ref()).is_some();
        self.messages[at].line = Some(place);
        if is_behind {
            (self.messages[at].stand, self.messages[at].due) = (Stand::Behind, due);
        } else {
            self.wait(at, due);
        }
    }

    /// The first one in the line of a key.
    fn first_of(&self, key: Option<&Vec<u8>>) -> Option<usize> {
        let of_key = (0..self.messages.len())
            .filter(|at| self.messages[*at].key.as_ref() == key && self.messages[*at].line.is_some());
        of_key.min_by_key(|at| self.messages[*at].line)
    }

    /// A message left the line of a key: the first one that is left may go.
    fn go_on(&mut self, key: Option<&Vec<u8>>) {
        if key.is_some()
            && let Some(first) = self.first_of(key)
            && self.messages[first].stand == Stand::Behind
        {
            self.wait(first, self.messages[first].due);
        }
    }

    fn remove(&mut self, at: usize) -> Message {
        let message = self.messages.remove(at);
        self.go_on(message.key.as_ref());
        message
    }

    fn die(&mut self, at: usize, reason: Reason) {
        let since = self.next_since();
        let message = &mut self.messages[at];
        (message.stand, message.since, message.fence) = (Stand::Dead(reason), since, 0);
        if message.goes_on {
            message.line = None;
            let key = message.key.clone();
            self.go_on(key.as_ref());
        }
    }

    fn note(&mut self, at: usize, text: &str) {
        let message = &mut self.messages[at];
        message.errors.push((message.attempts, text.to_owned()));
        let over = message.errors.len().saturating_sub(5);
        message.errors.drain(..over);
    }

    pub fn enqueue(&mut self, message: Message) {
        let due = message.due;
        self.messages.push(message);
        self.join(self.messages.len() - 1, due);
    }

    fn lapse(&mut self, at: usize, given_back: bool, why: &str) {
        let fence = self.messages[at].fence;
        if given_back {
            return self.wait(at, self.hands.now);
        }
        self.interruptions += 1;
        self.note(at, why);
        self.messages[at].interruptions += 1;
        if self.messages[at].interruptions >= self.messages[at].budget.interruptions {
            self.die(at, Reason::Interrupted);
        } else {
            self.wait(at, self.hands.now);
            self.messages[at].fence = fence;
        }
    }

    /// Ends the leases that are over.
    fn lapse_over(&mut self) {
        let mut over: Vec<(u64, u64, bool)> = Vec::new();
        for message in &self.messages {
            if let Stand::Held { deadline, given_back } = message.stand {
                let deadline = if given_back { 0 } else { deadline };
                if deadline <= self.hands.mono {
                    over.push((deadline, message.id, given_back));
                }
            }
        }
        over.sort_unstable();
        for (_, id, given_back) in over {
            let at = self.at(id).expect("held");
            self.lapse(at, given_back, "its lease was lost");
        }
    }

    /// Numbers, fences and attempts of what is handed out.
    pub fn claim(&mut self, n: usize, lease: u64, kept: bool, fence: &mut u64) -> Vec<(u64, u64, u32)> {
        self.lapse_over();
        let mut out = Vec::new();
        while out.len() < n && self.paused.is_none() {
            let Some(at) = self.next_ready() else { break };
            // One that was not answered twice is handed out alone.
            let is_suspect = self.messages[at].interruptions > 1;
            if is_suspect && !out.is_empty() {
                break;
            }
            *fence += 1;
            let active = self.active();
            let (now, mono) = (self.hands.now, self.hands.mono);
            let message = &mut self.messages[at];
            self.handed = Some(message.due);
            if message.expires.is_some_and(|end| end <= now) {
                self.die(at, Reason::Expired);
                continue;
            }
            message.attempts += 1;
            message.aged_from.get_or_insert(active);
            message.fence = *fence;
            message.kept_until = kept.then_some(now + lease as i64);
            message.stand = Stand::Held {
                deadline: mono.saturating_add(lease),
                given_back: false,
            };
            out.push((message.id, *fence, message.attempts));
            if self.at_most_once {
                self.remove(at);
            }
            if is_suspect {
                break;
            }
        }
        out
    }

    /// The message that is handed out next.
    pub fn next_ready(&self) -> Option<usize> {
        let ready = (0..self.messages.len()).filter(|at| {
            let message = &self.messages[*at];
            message.stand == Stand::Waiting && message.due <= self.hands.now
        });
        ready.min_by_key(|at| (self.messages[*at].due, self.messages[*at].since))
    }

    /// What the holder of a fence hears.
    pub fn answer(&mut self, id: u64, fence: u64, verb: &Verb) -> Told {
        let current = self.at(id).filter(|at| {
            let message = &self.messages[*at];
            message.fence == fence && matches!(message.stand, Stand::Waiting | Stand::Held { .. })
        });
        let Some(at) = current else {
            self.stale += 1;
            return Told::Stale;
        };
        match verb {
            Verb::Ack => {
                self.remove(at);
                Told::Done
            }
            Verb::Nack(after, told, text) => self.nack(at, *after, *told, text),
            Verb::Defer(until) => {
                let deferred = (*until - self.hands.now).max(0);
                let message = &mut self.messages[at];
                message.aged_from = message.aged_from.map(|from| from + deferred);
                self.wait(at, *until);
                Told::Again(self.messages[at].due)
            }
            Verb::Release => {
                self.wait(at, self.hands.now);
                Told::Again(self.messages[at].due)
            }
            Verb::Bury(why) => {
                self.note(at, why);
                self.die(at, Reason::Buried);
                Told::Dead(Reason::Buried)
            }
            Verb::Extend(deadline, kept_until) => {
                let message = &mut self.messages[at];
                message.stand = Stand::Held {
                    deadline: *deadline,
                    given_back: false,
                };
                message.kept_until = *kept_until;
                Told::Done
            }
        }
    }

    fn nack(&mut self, at: usize, after: Option<u64>, told: Option<i64>, text: &str) -> Told {
        self.note(at, text);
        let (active, now) = (self.active(), self.hands.now);
        let message = &mut self.messages[at];
        message.failures += 1;
        let Budget {
            failures,
            base,
            cap,
            age,
            ..
        } = message.budget;
        let old = u64::try_from(active - message.aged_from.expect("claimed")).unwrap_or(0);
        if message.failures >= failures {
            self.die(at, Reason::Failed);
            return Told::Dead(Reason::Failed);
        }
        if age.is_some_and(|age| old >= age) {
            self.die(at, Reason::GaveUp);
            return Told::Dead(Reason::GaveUp);
        }
        let due = match (after, told) {
            (Some(after), _) => now + after as i64,
            (None, Some(told)) => {
                let whole = (base << (message.failures - 1)).min(cap);
                assert!((now..=now + whole as i64).contains(&told), "a delay out of its bounds");
                told
            }
            (None, None) => panic!("it is to be delivered again"),
        };
        self.wait(at, due);
        Told::Again(self.messages[at].due)
    }

    /// A claim is dropped.
    pub fn give_back(&mut self, id: u64, fence: u64) {
        if let Some(at) = self.at(id).filter(|at| self.messages[*at].fence == fence)
            && let Stand::Held { given_back, .. } = &mut self.messages[at].stand
        {
            *given_back = true;
        }
    }

    /// Whether the holder of a fence still holds its message without anybody's write.
    pub fn holds(&self, id: u64, fence: u64) -> bool {
        let held = self.at(id).filter(|at| self.messages[*at].fence == fence);
        held.is_some_and(|at| matches!(self.messages[at].stand, Stand::Held { given_back: false, .. }))
    }

    /// An extension that is in memory only.
    pub fn extend(&mut self, id: u64, until: u64) {
        let at = self.at(id).expect("held");
        self.messages[at].stand = Stand::Held {
            deadline: until,
            given_back: false,
        };
    }

    pub fn discard(&mut self, id: u64) -> bool {
        let Some(at) = self.at(id) else { return false };
        self.remove(at);
        self.discarded += 1;
        true
    }

    /// The dead letters, in the order of their deaths.
    pub fn dead(&self) -> Vec<u64> {
        let dead = self
            .messages
            .iter()
            .filter(|message| matches!(message.stand, Stand::Dead(_)));
        let mut dead: Vec<_> = dead.map(|message| (message.since, message.id)).collect();
        dead.sort_unstable();
        dead.into_iter().map(|(_, id)| id).collect()
    }

    /// The letters that are meant, and whether there are more.
    fn chosen(&self, which: &Which) -> (Vec<u64>, bool) {
        let mut letters = self.dead();
        letters.retain(|id| {
            let stand = self.messages[self.at(*id).expect("dead")].stand;
            which.only.as_ref().is_none_or(|only| only.contains(id))
                && which.reason.is_none_or(|reason| stand == Stand::Dead(reason))
        });
        let more = which.limit.is_some_and(|limit| letters.len() > limit);
        letters.truncate(which.limit.unwrap_or(usize::MAX));
        (letters, more)
    }

    pub fn replay(&mut self, which: &Which) -> (u64, Vec<(u64, Refused)>, bool) {
        let (letters, more) = self.chosen(which);
        let mut refused = Vec::new();
        for id in which.only.iter().flatten() {
            let stand = self.at(*id).map(|at| self.messages[at].stand);
            if !matches!(stand, Some(Stand::Dead(_))) {
                refused.push((*id, Refused::NotDead));
            }
        }
        let mut replayed = 0;
        for id in letters {
            let after = which.per_second.map_or(0, |count| replayed * SECOND / u64::from(count));
            let due = self.hands.now + after as i64;
            let at = self.at(id).expect("dead");
            let message = &mut self.messages[at];
            let is_expired = message.expires.is_some_and(|end| end <= due);
            let is_over = message.once.as_ref().is_some_and(|(_, over)| *over);
            if !which.forced && (is_expired || is_over) {
                let why = if is_expired {
                    Refused::Expired
                } else {
                    Refused::KeyIsOver
                };
                refused.push((id, why));
                continue;
            }
            if is_expired {
                message.expires = None;
            }
            if which.new_effects {
                message.effect = None;
            }
            (message.attempts, message.failures, message.interruptions) = (0, 0, 0);
            message.aged_from = None;
            message.replays += 1;
            if message.line.is_none() {
                self.join(at, due);
            } else {
                self.wait(at, due);
            }
            replayed += 1;
        }
        (replayed, refused, more)
    }

    pub fn discard_dead(&mut self, which: &Which) -> u64 {
        let (letters, _) = self.chosen(which);
        letters.iter().filter(|id| self.discard(**id)).count() as u64
    }

    /// The store is closed: what was given back is, and spends nothing.
    pub fn close(&mut self) {
        let mut given_back = Vec::new();
        for message in &self.messages {
            if matches!(message.stand, Stand::Held { given_back: true, .. }) {
                given_back.push(message.id);
            }
        }
        given_back.sort_unstable();
        for id in given_back {
            let at = self.at(id).expect("held");
            self.lapse(at, true, "");
        }
    }

    /// The store is opened anew.
    pub fn open(&mut self) {
        self.stale = 0;
        let mut held: Vec<u64> = Vec::new();
        for message in &self.messages {
            if matches!(message.stand, Stand::Held { .. }) {
                held.push(message.id);
            }
        }
        held.sort_unstable();
        for id in held {
            let at = self.at(id).expect("held");
            match self.messages[at].kept_until.filter(|until| *until > self.hands.now) {
                Some(until) => {
                    let left = (until - self.hands.now) as u64;
                    self.extend(id, self.hands.mono.saturating_add(left));
                }
                None => self.lapse(at, false, "the store was opened anew"),
            }
        }
    }
}
