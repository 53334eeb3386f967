//! Workers that are tasks of tokio, for handlers that are asynchronous.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::keeper::Said;
use super::keeper::{Alive, Keeper};
use super::worker::{Worker, of_panic, said_by};
use super::{Delivery, Drained, Handled, Relay, Running};
use crate::error::{Error, Result};
use crate::outbox::QueueSpec;
use crate::store::tasks::call;
use crate::sync::{Arc, JoinHandle, TaskHandle, spawn_task};

/// Workers at work, as tasks. Dropped, it drains without being waited for.
#[must_use = "dropped, it drains at once"]
#[derive(Debug)]
pub struct RunningTasks {
    keeper: Arc<Keeper>,
    tasks: Vec<TaskHandle<()>>,
    leases: Vec<JoinHandle<()>>,
}

impl RunningTasks {
    /// See [`Running::last_error`](super::Running::last_error).
    pub fn last_error(&self) -> Option<Error> {
        self.keeper.last_error()
    }

    /// See [`Running::workers`](super::Running::workers).
    pub fn workers(&self) -> usize {
        self.keeper.workers()
    }

    /// As [`Running::drain`](super::Running::drain). Handlers that are left are cancelled at their next await.
    ///
    /// # Errors
    /// `Closed` if the runtime is being shut down.
    pub async fn drain(mut self, patience: Duration) -> Result<Drained> {
        let keeper = self.keeper.clone();
        let left = call(move || keeper.drain(Some(patience))).await?;
        self.tasks.iter().for_each(TaskHandle::abort);
        let leases = std::mem::take(&mut self.leases);
        call(move || leases.into_iter().for_each(|thread| drop(thread.join()))).await?;
        Ok(Drained { left })
    }
}

impl Drop for RunningTasks {
    fn drop(&mut self) {
        self.keeper.stop();
    }
}

impl<Q> Relay<Q>
where
    Q: QueueSpec + Copy + Send + Sync + 'static,
    Q::Message: Send + Sync + 'static,
{
    /// Starts the workers as tasks of the current runtime; see [`Relay::start`]. Nothing of them blocks a thread of the runtime.
    ///
    /// # Errors
    /// As [`Relay::start`]; `Closed` if the runtime is being shut down.
    ///
    /// # Panics
    /// Outside of a runtime of tokio, or in one without timers.
    pub async fn start_async<F>(
        self,
        handler: impl Fn(Delivery<Q::Message>) -> F + Send + Sync + 'static,
    ) -> Result<RunningTasks>
    where
        F: Future<Output = Handled> + Send + 'static,
    {
        let relay = self.clone();
        let running = call(move || relay.prepare()).await??;
        let handler = Arc::new(handler);
        let tasks = (0..self.workers).map(|_| {
            let (worker, handler) = (Arc::new(self.worker(&running)), handler.clone());
            spawn_task(work(worker, handler, running.keeper.begin()))
        });
        let tasks = tasks.collect();
        let (keeper, leases) = running.into_parts();
        Ok(RunningTasks { keeper, tasks, leases })
    }
}

impl Running {
    fn into_parts(mut self) -> (Arc<Keeper>, Vec<JoinHandle<()>>) {
        (self.keeper.clone(), std::mem::take(&mut self.threads))
    }
}

/// How soon a task looks again whose store answered an error.
const AFTER_ERROR_NS: u64 = 1_000_000_000;

async fn work<Q, F>(
    worker: Arc<Worker<Q>>,
    handler: Arc<impl Fn(Delivery<Q::Message>) -> F + Send + Sync + 'static>,
    alive: Alive,
) where
    Q: QueueSpec + Copy + Send + Sync + 'static,
    Q::Message: Send + Sync + 'static,
    F: Future<Output = Handled> + Send + 'static,
{
    let bell = worker.store.bell_of(&worker.queue);
    let mut lot = Vec::new();
    loop {
        let seen = bell.rung();
        let claimer = worker.clone();
        let claimed = call(move || {
            let (mut lot, mut errors) = (lot, 0);
            let claims = claimer.next(&mut lot, &mut errors, Duration::ZERO)?;
            let now_ns = claimer.store.running_ns().unwrap_or_default();
            let alarm_ns = claimer.store.next_claim_ns(&claimer.queue);
            let alarm_ns = alarm_ns.unwrap_or(Some(now_ns.saturating_add(AFTER_ERROR_NS)));
            Some((claims, alarm_ns, now_ns))
        });
        let Ok(Some((claims, alarm_ns, now_ns))) = claimed.await else {
            drop(alive);
            return;
        };
        if claims.is_empty() {
            let alarm_ns = alarm_ns.unwrap_or(u64::MAX);
            worker.store.sleep_until(&bell, seen, now_ns, alarm_ns).await;
            lot = Vec::new();
            continue;
        }
        lot = claims.into_iter().map(|claim| worker.keep(claim)).collect();
        for (kept, _) in &lot {
            let (worker, handler, here) = (worker.clone(), handler.clone(), kept.clone());
            // A task of its own, so that a panic of it ends nothing else.
            let handled = Handling(spawn_task(async move {
                match worker.delivery(&here) {
                    Ok(delivery) => said_by(handler(delivery).await),
                    Err(said) => said,
                }
            }));
            kept.say(handled.await);
        }
    }
}

/// A handler at work. Dropped, it is cancelled at its next await.
struct Handling(TaskHandle<Said>);

impl Future for Handling {
    type Output = Said;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Said> {
        let ended = std::task::ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(ended.unwrap_or_else(|ended| match ended.try_into_panic() {
            Ok(panic) => of_panic(panic),
            Err(_) => said_by(Handled::failed("the handler was cancelled")),
        }))
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.abort();
    }
}
