//! The calls of a store for tasks of tokio: none blocks the thread of its task on a sync, a lock or the disk.
//!
//! Each runs on a thread of the runtime that may block. So closures stay synchronous, the writer lock is never held over an
//! await, and a task that is dropped while it waits does not undo what its call does.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Claim, Claiming, Store, WriteTx};
use crate::batch::{Batch, Outcome};
use crate::codec::time::nanos;
use crate::dedupe::{Once, OnceKey};
use crate::error::{Error, ErrorKind, Result};
use crate::outbox::QueueSpec;
use crate::sync;

/// A call on a thread that may block.
pub(crate) async fn call<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    sync::blocking(body)
        .await
        .map_err(|cause| Error::with_source(ErrorKind::Closed, "the runtime was shut down", cause))
}

impl Store {
    /// [`Store::write`] for a task. Dropped while it waits, the task does not learn what became of the write, which goes on.
    ///
    /// # Errors
    /// As [`Store::write`]; `Closed` if the runtime was shut down.
    pub async fn write_async<R, E>(
        &self,
        f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E>
    where
        R: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let store = self.clone();
        call(move || store.write(f)).await?
    }

    /// [`Store::once`] for a task; see [`Store::write_async`].
    ///
    /// # Errors
    /// As [`Store::once`]; `Closed` if the runtime was shut down.
    pub async fn once_async<R, E>(
        &self,
        key: OnceKey,
        f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E> + Send + 'static,
    ) -> Result<Once<R>, E>
    where
        R: Serialize + DeserializeOwned + Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let store = self.clone();
        call(move || store.once(&key, f)).await?
    }

    /// [`Store::apply`] for a task; see [`Store::write_async`].
    ///
    /// # Errors
    /// As [`Store::apply`]; `Closed` if the runtime was shut down.
    pub async fn apply_async(&self, batch: Batch) -> Result<Outcome> {
        let store = self.clone();
        call(move || store.apply(&batch)).await?
    }

    /// [`Store::claim`] for a task. Dropped while it waits, the task gives back what it would have got.
    ///
    /// # Errors
    /// As [`Store::claim`]; `Closed` if the runtime was shut down.
    pub async fn claim_async<Q>(&self, queue: Q, claiming: impl Into<Claiming>) -> Result<Vec<Claim<Q::Message>>>
    where
        Q: QueueSpec + Send + 'static,
        Q::Message: 'static,
    {
        let (store, claiming) = (self.clone(), claiming.into());
        call(move || store.claim(queue, claiming)).await?
    }

    /// [`Store::claim_wait`] for a task: it sleeps without a thread.
    ///
    /// # Errors
    /// As [`Store::claim_wait`]; `Closed` if the runtime was shut down.
    pub async fn claim_wait_async<Q>(
        &self,
        queue: Q,
        claiming: impl Into<Claiming>,
        patience: Duration,
    ) -> Result<Vec<Claim<Q::Message>>>
    where
        Q: QueueSpec + Copy + Send + Sync + 'static,
        Q::Message: 'static,
    {
        let claiming = claiming.into();
        let bell = self.bell_of(&queue);
        let end_ns = self.running_ns()?.saturating_add(nanos(patience));
        loop {
            let seen = bell.rung();
            let store = self.clone();
            let (claims, alarm_ns) = call(move || {
                let claims = store.claim(queue, claiming)?;
                let alarm_ns = match claims.is_empty() {
                    true => store.next_claim_ns(&queue)?,
                    false => None,
                };
                Ok::<_, Error>((claims, alarm_ns))
            })
            .await??;
            let now_ns = self.running_ns()?;
            if !claims.is_empty() || claiming.messages == 0 || now_ns >= end_ns {
                return Ok(claims);
            }
            self.sleep_until(&bell, seen, now_ns, alarm_ns.unwrap_or(u64::MAX).min(end_ns))
                .await;
        }
    }

    /// Sleeps until a ring after `seen`, or the alarm.
    pub(crate) async fn sleep_until(&self, bell: &crate::lease::Bell, seen: u64, now_ns: u64, alarm_ns: u64) {
        if alarm_ns == u64::MAX {
            bell.sleep(seen, None).await;
        } else {
            let left = Duration::from_nanos(alarm_ns.saturating_sub(now_ns));
            sync::within(left, bell.sleep(seen, Some(alarm_ns))).await;
        }
    }
}
