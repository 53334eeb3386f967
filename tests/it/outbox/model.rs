//! Random lives of two queues beside the reference: after each step the same counts, and now and then the same messages.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use sprag::testkit::{CrashPlan, SimDisk};
use sprag::{
    Bincode, Claim, Claiming, Codec as _, Consumed, Error, ErrorKind, Keep, ManualClock, MessageId, MessageInfo,
    MessageState, OnDead, OnceKey, Outgoing, Queue, Reason, Receipt, Replay, Retry, Settled, Store,
};

use super::reference::{Budget, Message, Reference, Stand, Told, Verb, Which};
use super::{MAIL, open};
use crate::common::{kind_of, shared, small_with};
use crate::random::{Random, seed, trials};

const QUEUES: [Queue<String>; 2] = [MAIL, Queue::new("alarms").at_most_once()];
const STEPS: u64 = 300;
/// Keys of which the dead let the others go on.
const KEYS_THAT_GO_ON: u64 = 2;

/// What the clocks show a transaction, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hands {
    /// Schedule time.
    pub now: i64,
    pub mono: u64,
}

pub fn ns_of(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    since.as_nanos() as i64
}

fn time_of(ns: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(ns as u64)
}

struct Held {
    queue: usize,
    fence: u64,
    claim: Claim<String>,
}

struct World {
    random: Random,
    clock: ManualClock,
    wall: i64,
    mono: u64,
    opened: (i64, u64),
    disk: SimDisk,
    store: Option<Store>,
    queues: [Reference; 2],
    held: Vec<Held>,
    receipts: Vec<(usize, Receipt)>,
    fence: u64,
    last_id: [u64; 2],
    effects: HashSet<sprag::EffectId>,
    step: u64,
}

/// The retry that has these budgets.
fn retry_of(budget: &Budget) -> Retry {
    let retry = Retry::DEFAULT
        .failures(budget.failures)
        .interruptions(budget.interruptions)
        .base(Duration::from_nanos(budget.base))
        .cap(Duration::from_nanos(budget.cap));
    match budget.age {
        Some(age) => retry.give_up_after(Duration::from_nanos(age)),
        None => retry.never_too_old(),
    }
}

impl World {
    fn new(seed: u64) -> World {
        let (clock, disk) = (ManualClock::new(), SimDisk::new());
        // A commit has room to end as many leases as there will ever be.
        let store = small_with(&clock)
            .log_half_bytes(1 << 20)
            .create_on(shared(&disk))
            .expect("a store");
        let mut world = World {
            random: Random::new(seed),
            clock,
            wall: ManualClock::START_WALL_NS,
            mono: 0,
            opened: (ManualClock::START_WALL_NS, 0),
            disk,
            store: Some(store),
            queues: [Reference::default(), Reference::default()],
            held: Vec::new(),
            receipts: Vec::new(),
            fence: 0,
            last_id: [0; 2],
            effects: HashSet::new(),
            step: 0,
        };
        world.queues[1].at_most_once = true;
        world.tick();
        for queue in [0, 1] {
            world.step += 1;
            world.enqueue(queue);
        }
        world
    }

    fn store(&self) -> Store {
        self.store.clone().expect("open between two steps")
    }

    /// What the clock shows from here on.
    fn tick(&mut self) {
        let running = self.mono.saturating_sub(self.opened.1);
        let hands = Hands {
            now: self.wall.max(self.opened.0 + running as i64),
            mono: self.mono,
        };
        self.queues.iter_mut().for_each(|queue| queue.hands = hands);
    }

    fn now(&self) -> i64 {
        self.queues[0].hands.now
    }

    fn millis(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.random.below(below))
    }

    fn pass(&mut self) {
        match self.random.below(8) {
            0 => {
                let secs = self.random.below(7200) as i64 - 3600;
                self.clock.jump_wall_secs(secs);
                self.wall += secs * 1_000_000_000;
            }
            1 => {
                let by = self.millis(20_000);
                self.clock.advance_mono(by);
                self.mono += by.as_nanos() as u64;
            }
            long => {
                let by = self.millis(if long < 4 { 40_000 } else { 3000 });
                self.clock.advance(by);
                self.wall += by.as_nanos() as i64;
                self.mono += by.as_nanos() as u64;
            }
        }
        self.tick();
    }

    /// A message with random wishes, and the reference's idea of it, of which the number is still to be told.
    fn draw(&mut self) -> (Outgoing<'static, String>, Retry, OnDead, Message) {
        let (now, random) = (self.now(), &mut self.random);
        let payload = format!("{}-{}", self.step, "x".repeat(random.below(150) as usize));
        let text: &'static String = Box::leak(Box::new(payload.clone()));
        let mut outgoing = Outgoing::of(text);
        let key = (random.below(3) > 0).then(|| random.below(4));
        let goes_on = key.is_some_and(|key| key < KEYS_THAT_GO_ON);
        let budget = Budget {
            failures: 1 + random.below(4) as u32,
            interruptions: 1 + random.below(4) as u32,
            base: 1_000_000_000,
            cap: 1_000_000_000 * (1 + random.below(6)),
            age: (random.below(2) > 0).then_some(30_000_000_000),
        };
        let mut message = Message {
            id: 0,
            key: key.map(|key| vec![key as u8; 1 + key as usize]),
            payload,
            headers: Vec::new(),
            budget,
            goes_on,
            expires: None,
            once: None,
            effect: None,
            stand: Stand::Waiting,
            due: now,
            since: 0,
            line: None,
            fence: 0,
            kept_until: None,
            attempts: 0,
            failures: 0,
            interruptions: 0,
            replays: 0,
            aged_from: None,
            errors: Vec::new(),
        };
        if let Some(key) = &message.key {
            outgoing = outgoing.key(key);
        }
        match random.below(6) {
            0 => {
                let delay = random.below(30_000) * 1_000_000;
                outgoing = outgoing.delay(Duration::from_nanos(delay));
                message.due = now + delay as i64;
            }
            1 => {
                message.due = now - 20_000_000_000 + random.below(60_000) as i64 * 1_000_000;
                outgoing = outgoing.at(time_of(message.due));
            }
            _ => {}
        }
        if random.below(5) == 0 {
            let end = now + random.below(20_000) as i64 * 1_000_000;
            outgoing = outgoing.expires_at(time_of(end));
            message.expires = Some(end);
        }
        if random.below(4) == 0 {
            outgoing = outgoing.header("to", "a\u{e9}b").header("", "");
            message.headers = vec![("to".to_owned(), "a\u{e9}b".to_owned()), Default::default()];
        }
        let on_dead = if goes_on { OnDead::GoOn } else { OnDead::BlockKey };
        (outgoing, retry_of(&budget), on_dead, message)
    }

    fn enqueued(&mut self, queue: usize, id: MessageId, mut message: Message) {
        assert!(id.get() > self.last_id[queue], "numbers grow");
        self.last_id[queue] = id.get();
        message.id = id.get();
        self.queues[queue].enqueue(message);
    }

    fn enqueue(&mut self, queue: usize) {
        let (outgoing, retry, on_dead, mut message) = self.draw();
        let store = self.store();
        let spec = QUEUES[queue].on_dead(on_dead);
        let id = match self.random.below(3) {
            0 => store.enqueue(spec.retry(retry), outgoing).expect("enqueued"),
            1 => store.enqueue(spec, outgoing.retry(retry)).expect("enqueued"),
            _ => {
                let name = format!("step {}", self.step);
                let key = OnceKey::new("model", &name, Keep::Forever);
                let id = store.once(&key, |tx| tx.enqueue(spec, outgoing.retry(retry)).map(MessageId::get));
                message.once = Some((name, false));
                id.expect("enqueued").into_result().into()
            }
        };
        self.enqueued(queue, id, message);
    }

    fn claiming(&mut self) -> (Claiming, usize, u64, bool) {
        let (n, lease) = (1 + self.random.below(6) as usize, self.millis(20_000));
        let kept = self.random.below(5) == 0;
        let claiming = Claiming::new(n).lease(lease);
        let claiming = if kept { claiming.kept_in_file() } else { claiming };
        (claiming, n, lease.as_nanos() as u64, kept)
    }

    fn claimed(&mut self, queue: usize, claims: Vec<Claim<String>>, wanted: &[(u64, u64, u32)]) {
        let found: Vec<_> = claims
            .iter()
            .map(|claim| (claim.id().get(), claim.fence(), claim.attempt()))
            .collect();
        assert_eq!(found, wanted, "claimed of queue {queue}");
        for claim in claims {
            self.in_order(queue, &claim);
            let fence = claim.fence();
            self.held.push(Held { queue, fence, claim });
        }
    }

    /// Nothing that was enqueued before it under its key is there any more, unless the dead of that key let others go on.
    fn in_order(&self, queue: usize, claim: &Claim<String>) {
        let Some(key) = claim.key().filter(|key| u64::from(key[0]) >= KEYS_THAT_GO_ON) else {
            return;
        };
        let mut before = self.queues[queue]
            .messages
            .iter()
            .filter(|message| message.id < claim.id().get());
        assert!(
            !before.any(|message| message.key.as_deref() == Some(key)),
            "the order within a key"
        );
    }

    fn claim(&mut self, queue: usize) {
        let (claiming, n, lease, kept) = self.claiming();
        let claims = self.store().claim(QUEUES[queue], claiming).expect("a claim");
        let wanted = self.queues[queue].claim(n, lease, kept, &mut self.fence);
        self.claimed(queue, claims, &wanted);
    }

    fn take_held(&mut self) -> Option<Held> {
        let count = self.held.len() as u64;
        (count > 0).then(|| self.held.swap_remove(self.random.below(count) as usize))
    }

    /// A verb that ends a claim.
    fn verb(&mut self) -> Verb {
        let text = format!("said in step {}", self.step);
        match self.random.below(9) {
            0..=3 => Verb::Ack,
            4 => Verb::Nack(None, None, text),
            5 => Verb::Nack(Some(self.millis(9000).as_nanos() as u64), None, text),
            6 => Verb::Defer(self.now() - 5_000_000_000 + self.millis(20_000).as_nanos() as i64),
            7 => Verb::Release,
            _ => Verb::Bury(text),
        }
    }

    fn answer(&mut self) {
        let Some(Held { queue, fence, claim }) = self.take_held() else {
            return;
        };
        let (mut verb, store, id) = (self.verb(), self.store(), claim.id().get());
        let inside = self.random.below(2) == 0;
        let gone = self.queues[queue].at_most_once && !matches!(verb, Verb::Ack);
        let answered: Result<Settled, Error> = if inside {
            store.write(|tx| match &verb {
                Verb::Ack => tx.ack(claim),
                Verb::Nack(after, _, text) => tx.nack(claim, after.map(Duration::from_nanos), text),
                Verb::Defer(until) => tx.defer(claim, time_of(*until)),
                Verb::Release => tx.release(claim),
                Verb::Bury(why) => tx.bury(claim, why),
                Verb::Extend(..) => unreachable!("ends no claim"),
            })
        } else {
            let answered = match &verb {
                Verb::Ack => store.ack(claim),
                Verb::Nack(after, _, text) => store.nack(claim, after.map(Duration::from_nanos), text),
                Verb::Defer(until) => store.defer(claim, time_of(*until)),
                Verb::Release => store.release(claim),
                Verb::Bury(why) => store.bury(claim, why),
                Verb::Extend(..) => unreachable!("ends no claim"),
            };
            answered.map_err(sprag::Unsettled::into_error)
        };
        if gone {
            return assert_eq!(kind_of(answered), ErrorKind::Invalid, "an answer for what is gone");
        }
        let told = Told::of(&answered.expect("answered"));
        if self.queues[queue].at_most_once {
            return assert_eq!(told, Told::Done);
        }
        if let (Verb::Nack(_, at, _), Told::Again(due)) = (&mut verb, told) {
            *at = Some(due);
        }
        assert_eq!(told, self.queues[queue].answer(id, fence, &verb), "{verb:?} of {id}");
    }

    fn extend(&mut self) {
        let (lease, store) = (self.millis(9000), self.store());
        let at = self.random.below(self.held.len().max(1) as u64) as usize;
        let Some(Held { queue, fence, claim }) = self.held.get(at) else {
            return;
        };
        let (id, queue) = (claim.id().get(), &mut self.queues[*queue]);
        let told = Told::of(&store.extend(claim, lease).expect("answered"));
        let until = self.mono + lease.as_nanos() as u64;
        if queue.at_most_once {
            assert_eq!(told, Told::Done);
        } else if queue.holds(id, *fence) {
            assert_eq!(told, Told::Done);
            queue.extend(id, until);
        } else {
            assert_eq!(
                told,
                queue.answer(id, *fence, &Verb::Extend(until, None)),
                "extended {id}"
            );
        }
    }

    fn let_go(&mut self) {
        let Some(Held { queue, fence, claim }) = self.take_held() else {
            return;
        };
        let id = claim.id().get();
        if self.random.below(3) == 0 {
            let receipt = claim.into_receipt();
            assert_eq!(receipt.is_none(), self.queues[queue].at_most_once);
            self.receipts.extend(receipt.map(|receipt| (queue, receipt)));
        } else {
            drop(claim);
            self.queues[queue].give_back(id, fence);
        }
    }

    fn take_up(&mut self) {
        let count = self.receipts.len() as u64;
        if count == 0 {
            return;
        }
        let (queue, receipt) = self.receipts.swap_remove(self.random.below(count) as usize);
        let lease = self.millis(20_000);
        let claim = self.store().take_up(QUEUES[queue], receipt, lease).expect("an answer");
        let (until, kept) = (
            self.mono + lease.as_nanos() as u64,
            self.now() + lease.as_nanos() as i64,
        );
        let verb = Verb::Extend(until, Some(kept));
        let told = self.queues[queue].answer(receipt.id.get(), receipt.fence, &verb);
        assert_eq!(claim.is_some(), told == Told::Done, "taken up");
        if let Some(claim) = claim {
            let fence = receipt.fence;
            assert_eq!((claim.fence(), claim.id()), (fence, receipt.id));
            self.held.push(Held { queue, fence, claim });
        }
    }

    /// Answers some, enqueues one and claims the next, in one commit; or nothing of it, and what was answered is given back.
    fn lot(&mut self) {
        let (outgoing, retry, on_dead, message) = self.draw();
        let (claiming, n, lease, kept) = self.claiming();
        let fails = self.random.below(3) == 0;
        let count = self.random.below(4) as usize;
        let lot: Vec<Held> = std::iter::from_fn(|| self.take_held()).take(count).collect();
        let ids: Vec<_> = lot
            .iter()
            .map(|held| (held.queue, held.claim.id().get(), held.fence))
            .collect();
        let mut told = Vec::new();
        let spec = MAIL.on_dead(on_dead);
        let written = self.store().write_then_claim(MAIL, claiming, |tx| {
            for held in lot {
                told.push(Told::of(&tx.ack(held.claim)?));
            }
            let id = tx.enqueue(spec, outgoing.retry(retry))?;
            if fails {
                tx.put(sprag::Table::<u64, u64>::new("numbers"), &1, &1)?;
                return Err(tx.pause("no such queue").expect_err("no queue"));
            }
            Ok::<_, Error>(id)
        });
        let before = self.queues.clone();
        for ((queue, id, fence), told) in ids.iter().zip(told) {
            if self.queues[*queue].at_most_once {
                assert_eq!(told, Told::Done);
            } else {
                assert_eq!(
                    told,
                    self.queues[*queue].answer(*id, *fence, &Verb::Ack),
                    "acknowledged {id}"
                );
            }
        }
        if fails {
            assert_eq!(kind_of(written.map(|(id, _)| id)), ErrorKind::NotFound);
            let stale = [0, 1].map(|queue| self.queues[queue].stale);
            self.queues = before;
            for (queue, id, fence) in ids {
                self.queues[queue].give_back(id, fence);
            }
            return (self.queues[0].stale, self.queues[1].stale) = stale.into();
        }
        let (id, claims) = written.expect("written");
        self.enqueued(0, id, message);
        let wanted = self.queues[0].claim(n, lease, kept, &mut self.fence);
        self.claimed(0, claims, &wanted);
    }

    /// An answer in a unit that fails is undone, and what was written before it stays.
    fn nested(&mut self) {
        let (outgoing, retry, on_dead, message) = self.draw();
        let Some(held) = self.take_held() else { return };
        let (queue, id, fence) = (held.queue, held.claim.id().get(), held.fence);
        let spec = MAIL.on_dead(on_dead);
        let mut told = None;
        let written = self.store().write(|tx| {
            let id = tx.enqueue(spec, outgoing.retry(retry))?;
            let key = OnceKey::new("model", "nested", Keep::Forever);
            let undone = tx.once(&key, |tx| {
                told = Some(Told::of(&tx.ack(held.claim)?));
                Err::<u64, Error>(tx.pause("no such queue").expect_err("no queue"))
            });
            assert_eq!(kind_of(undone), ErrorKind::NotFound);
            Ok::<_, Error>(id)
        });
        self.enqueued(0, written.expect("written"), message);
        if !self.queues[queue].at_most_once {
            let before = self.queues[queue].clone();
            let wanted = self.queues[queue].answer(id, fence, &Verb::Ack);
            let stale = self.queues[queue].stale;
            assert_eq!(told, Some(wanted));
            self.queues[queue] = before;
            self.queues[queue].stale = stale;
            self.queues[queue].give_back(id, fence);
        }
    }

    fn consume(&mut self) {
        let Some(Held { queue, fence, claim }) = self.take_held() else {
            return;
        };
        let id = claim.id().get();
        let fails = self.random.below(2) == 0;
        let mut ran = false;
        let consumed = self.store().consume(claim, |tx, _| {
            ran = true;
            if fails {
                tx.pause("no such queue").map(drop)
            } else {
                Ok::<_, Error>(())
            }
        });
        let before = self.queues[queue].clone();
        let wanted = if self.queues[queue].at_most_once {
            Told::Done
        } else {
            self.queues[queue].answer(id, fence, &Verb::Ack)
        };
        assert_eq!(ran, wanted == Told::Done, "the work of {id}");
        match consumed {
            Ok(consumed) => assert_eq!(consumed == Consumed::Stale, wanted == Told::Stale),
            Err(unsettled) => {
                assert!(fails && unsettled.error.kind() == ErrorKind::NotFound);
                self.queues[queue] = before;
                self.held.push(Held {
                    queue,
                    fence,
                    claim: unsettled.claim,
                });
            }
        }
    }

    fn which(&mut self, queue: usize) -> (Replay, Which) {
        let (mut replay, mut which) = (Replay::new(), Which::default());
        let random = &mut self.random;
        match random.below(4) {
            0 => {
                let reason = Reason::ALL[random.below(5) as usize];
                replay = replay.reason(reason);
                which.reason = Some(reason);
            }
            1 => {
                let ids = self.queues[queue].messages.iter().map(|message| message.id);
                let ids: Vec<u64> = ids.filter(|_| random.below(3) == 0).collect();
                replay = replay.only(ids.iter().map(|id| MessageId::from(*id)));
                which.only = Some(ids);
            }
            _ => {}
        }
        if random.below(2) == 0 {
            let limit = 1 + random.below(4) as usize;
            replay = replay.limit(limit);
            which.limit = Some(limit);
        }
        if random.below(3) == 0 {
            let count = 1 + random.below(3) as u32;
            replay = replay.per_second(count);
            which.per_second = Some(count);
        }
        if random.below(3) == 0 {
            replay = replay.new_effect_ids();
            which.new_effects = true;
        }
        if random.below(3) == 0 {
            replay = replay.forced();
            which.forced = true;
        }
        (replay, which)
    }

    fn tend(&mut self, queue: usize) {
        let (store, name) = (self.store(), QUEUES[queue].name());
        match self.random.below(8) {
            0 => assert_eq!(store.pause(name).expect("paused"), self.queues[queue].pause(true)),
            1 | 2 => assert_eq!(store.resume(name).expect("resumed"), self.queues[queue].pause(false)),
            3 => {
                let (replay, which) = self.which(queue);
                let discarded = store.discard_dead(name, &replay).expect("discarded");
                assert_eq!(discarded.discarded, self.queues[queue].discard_dead(&which));
            }
            4 => {
                let id = self.random.below(self.last_id[queue] + 3);
                let discarded = store.write(|tx| tx.discard(name, id.into())).expect("discarded");
                assert_eq!(discarded, self.queues[queue].discard(id));
            }
            5 => {
                let name = format!("step {}", self.random.below(self.step + 1));
                store.forget("model", &name).expect("forgotten");
                for message in self.queues.iter_mut().flat_map(|queue| &mut queue.messages) {
                    message
                        .once
                        .iter_mut()
                        .filter(|(known, _)| *known == name)
                        .for_each(|(_, over)| *over = true);
                }
            }
            _ => {
                let (replay, which) = self.which(queue);
                let replayed = store.replay(name, &replay).expect("replayed");
                let (count, refused, more) = self.queues[queue].replay(&which);
                let found: Vec<_> = replayed.refused.iter().map(|(id, why)| (id.get(), *why)).collect();
                assert_eq!(
                    (replayed.replayed, found, replayed.more),
                    (count, refused, more),
                    "{which:?}"
                );
            }
        }
    }

    fn reopen(&mut self) {
        let store = self.store.take().expect("open between two steps");
        let old: Vec<Held> = self.held.drain(..).collect();
        match self.random.below(3) {
            0 => {
                store.close().expect("closed");
                self.queues.iter_mut().for_each(Reference::close);
            }
            1 => self.disk = self.disk.kill(),
            _ => self.disk = self.disk.power_loss(self.step, CrashPlan::Any),
        }
        if self.random.below(2) == 0 {
            self.clock.reboot();
            self.mono = 0;
        }
        self.pass();
        self.opened = (self.wall, self.mono);
        self.tick();
        let store = open(&self.disk, &self.clock);
        for Held { queue, claim, .. } in old {
            if !self.queues[queue].at_most_once {
                let answered = store.ack(claim).map_err(sprag::Unsettled::into_error);
                assert_eq!(kind_of(answered), ErrorKind::Invalid, "a claim of another opening");
            }
        }
        self.queues.iter_mut().for_each(Reference::open);
        self.store = Some(store);
    }

    fn take_step(&mut self) {
        self.step += 1;
        let queue = usize::from(self.random.below(4) == 0);
        match self.random.below(40) {
            0..=8 => self.enqueue(queue),
            9..=15 => self.claim(queue),
            16..=22 => self.answer(),
            23 => self.extend(),
            24 | 25 => self.let_go(),
            26 => self.take_up(),
            27 | 28 => self.lot(),
            29 => self.nested(),
            30 => self.consume(),
            31..=33 => self.tend(queue),
            34 if self.random.below(3) == 0 => self.reopen(),
            _ => self.pass(),
        }
        for queue in [0, 1] {
            self.compare_counts(queue);
            if self.step.is_multiple_of(8) {
                self.compare_messages(queue);
            }
        }
        if self.step.is_multiple_of(50) {
            let checked = self.store().check().expect("a check");
            assert!(checked.is_sound(), "{checked:?}");
        }
    }

    fn compare_counts(&self, queue: usize) {
        let stats = self
            .store()
            .queue_stats(QUEUES[queue].name())
            .expect("a look")
            .expect("the queue");
        let reference = &self.queues[queue];
        let count =
            |is: &dyn Fn(&Message) -> bool| reference.messages.iter().filter(|message| is(message)).count() as u64;
        let now = self.now();
        let wanted = [
            count(&|message| message.stand == Stand::Waiting && message.due <= now),
            count(&|message| message.stand == Stand::Waiting && message.due > now),
            count(&|message| matches!(message.stand, Stand::Held { .. })),
            count(&|message| message.stand == Stand::Behind),
            count(&|message| matches!(message.stand, Stand::Dead(_))),
            reference.interruptions,
            reference.discarded,
            reference.stale,
        ];
        let found = [
            stats.ready,
            stats.scheduled,
            stats.claimed,
            stats.blocked,
            stats.dead,
            stats.interruptions,
            stats.discarded,
            stats.stale,
        ];
        assert_eq!(found, wanted, "counts of queue {queue}");
        assert_eq!(stats.paused, reference.paused.is_some());
        let age = reference
            .next_ready()
            .map(|at| Duration::from_nanos((now - reference.messages[at].due) as u64));
        assert_eq!(stats.oldest_ready_age, age);
        let bytes = reference
            .messages
            .iter()
            .map(|message| bytes_of(&message.payload).len() as u64)
            .sum::<u64>();
        assert_eq!(stats.bytes, bytes);
    }

    fn compare_messages(&mut self, queue: usize) {
        let (store, name, now) = (self.store(), QUEUES[queue].name(), self.now());
        let pages = 1 + self.random.below(7) as usize;
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = store.read(|tx| tx.messages(name, after, pages)).expect("a page");
            after = page.last().map(|info| info.id);
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        let letters: Vec<u64> = store
            .read(|tx| tx.dead_letters(name, None, usize::MAX))
            .expect("dead letters")
            .iter()
            .map(|info| info.id.get())
            .collect();
        assert_eq!(letters, self.queues[queue].dead());
        let messages = &mut self.queues[queue].messages;
        messages.sort_by_key(|message| message.id);
        for (info, message) in found.iter().zip(&mut *messages) {
            same(info, message, now);
            match message.effect {
                Some(effect) => assert_eq!(info.effect_id, effect),
                None => assert!(
                    self.effects.insert(info.effect_id),
                    "an effect id that was there before"
                ),
            }
            message.effect = Some(info.effect_id);
        }
        assert_eq!(found.len(), messages.len());
    }
}

fn bytes_of(payload: &String) -> Vec<u8> {
    let mut bytes = Vec::new();
    Bincode::encode(payload, &mut bytes).map(|()| bytes).expect("a text")
}

fn same(info: &MessageInfo, message: &Message, now: i64) {
    let state = match message.stand {
        Stand::Behind => MessageState::Blocked,
        Stand::Waiting if message.due <= now => MessageState::Ready,
        Stand::Waiting => MessageState::Scheduled,
        Stand::Held { .. } => MessageState::Claimed,
        Stand::Dead(reason) => MessageState::Dead(reason),
    };
    let errors: Vec<_> = info
        .errors
        .iter()
        .map(|one| (one.attempt(), one.text().to_owned()))
        .collect();
    assert_eq!(
        (
            info.id.get(),
            info.state,
            &info.key,
            ns_of(info.due),
            info.expires_at.map(ns_of)
        ),
        (message.id, state, &message.key, message.due, message.expires)
    );
    assert_eq!(
        [info.attempts, info.failures, info.interruptions, info.replays],
        [
            message.attempts,
            message.failures,
            message.interruptions,
            message.replays
        ],
        "of {}",
        message.id
    );
    assert_eq!(
        (&info.headers, errors),
        (&message.headers, message.errors.clone()),
        "of {}",
        message.id
    );
    assert_eq!(info.payload, bytes_of(&message.payload));
}

/// Random lives, each of which says its seed if it fails: `SPRAG_SEED` makes all of them again.
#[test]
fn random_lives_of_queues_go_as_those_of_the_reference() {
    let mut random = Random::new(seed());
    let lives = trials(40, 2000);
    for life in 0..lives {
        let seed = random.below(u64::MAX);
        let mut world = World::new(seed);
        println!("life={life} seed={seed}");
        for _ in 0..STEPS {
            world.take_step();
        }
    }
}
