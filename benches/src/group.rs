//! A group in front of any engine, of the same kind as Sprag's own.
//!
//! Who finds no leader becomes it: takes all operations that wait, has them done in one durable transaction, hands the lead
//! to one of those that came meanwhile, and wakes the others with their replies. Who comes while a leader works leaves
//! the operation and waits. No thread of its own, no waiting for more.

use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::contents::Contents;
use crate::op::{Ask, Op, Reply, See};
use crate::peer::{Failure, Open, Peer, Setup};

/// An engine behind a group.
pub struct Grouped {
    inner: Box<dyn Peer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    led: bool,
    ops: Vec<Op>,
    /// One for each operation, in the same order.
    members: Vec<Arc<Member>>,
}

/// Where a member waits.
#[derive(Default)]
struct Member {
    turn: Mutex<Option<Turn>>,
    wake: Condvar,
}

enum Turn {
    Lead,
    Reply(Result<Reply, String>),
}

impl Member {
    fn give(&self, turn: Turn) {
        *self.turn.lock() = Some(turn);
        self.wake.notify_one();
    }

    fn wait(&self) -> Turn {
        let mut turn = self.turn.lock();
        loop {
            if let Some(turn) = turn.take() {
                return turn;
            }
            self.wake.wait(&mut turn);
        }
    }
}

impl Grouped {
    /// Opens the engine behind a group. It is used by one thread at a time.
    ///
    /// # Errors
    /// What opening reports.
    pub fn open(open: Open, folder: &Path, setup: Setup) -> Result<Box<dyn Peer>, Failure> {
        Ok(Box::new(Grouped::new(open(folder, setup)?)))
    }

    /// Puts `inner` behind a group.
    pub fn new(inner: Box<dyn Peer>) -> Grouped {
        Grouped {
            inner,
            state: Mutex::default(),
        }
    }

    /// Does what waits, and gives the reply to the leader's own operation, which is the first: it was left first among those
    /// that wait.
    fn lead(&self) -> Result<Reply, Failure> {
        let (ops, members) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.ops), std::mem::take(&mut state.members))
        };
        let outcome = self.inner.lot(&ops).map_err(|failure| failure.to_string());
        {
            let mut state = self.state.lock();
            match state.members.first() {
                Some(next) => next.give(Turn::Lead),
                None => state.led = false,
            }
        }
        let reply = |index: usize| match &outcome {
            Ok(replies) => replies.get(index).cloned().ok_or_else(|| "too few replies".to_owned()),
            Err(text) => Err(text.clone()),
        };
        for (index, member) in members.iter().enumerate().skip(1) {
            member.give(Turn::Reply(reply(index)));
        }
        Ok(reply(0)?)
    }
}

impl Peer for Grouped {
    fn write(&self, _thread: usize, op: Op) -> Result<Reply, Failure> {
        let member = Arc::new(Member::default());
        let leads = {
            let mut state = self.state.lock();
            state.ops.push(op);
            state.members.push(member.clone());
            !std::mem::replace(&mut state.led, true)
        };
        if leads {
            return self.lead();
        }
        match member.wait() {
            Turn::Lead => self.lead(),
            Turn::Reply(reply) => Ok(reply?),
        }
    }

    fn lot(&self, ops: &[Op]) -> Result<Vec<Reply>, Failure> {
        self.inner.lot(ops)
    }

    fn read(&self, thread: usize, ask: &Ask, see: See<'_>) -> Result<(), Failure> {
        self.inner.read(thread, ask, see)
    }

    fn settle(&self) -> Result<(), Failure> {
        self.inner.settle()
    }

    fn contents(&self) -> Result<Option<Contents>, Failure> {
        self.inner.contents()
    }
}
