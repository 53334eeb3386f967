//! Workers that are tasks of tokio, for handlers that are asynchronous.

use std::future::Future;
use std::time::Duration;

use super::keeper::{Alive, Keeper};
use super::worker::{Answered, Worker, answer_of, panic_text};
use super::{Delivery, Drained, Handled, Relay, Running};
use crate::error::Result;
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
    /// As [`Running::drain`](super::Running::drain). Handlers that are left are cancelled at their next await.
    ///
    /// # Errors
    /// `Closed` if the runtime is being shut down.
    pub async fn drain(mut self, patience: Duration) -> Result<Drained> {
        let keeper = self.keeper.clone();
        let left = call(move || keeper.drain(Some(patience))).await?;
        if left > 0 {
            self.tasks.iter().for_each(TaskHandle::abort);
        }
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

async fn work<Q, F>(worker: Arc<Worker<Q>>, handler: Arc<impl Fn(Delivery<Q::Message>) -> F>, alive: Alive)
where
    Q: QueueSpec + Copy + Send + Sync + 'static,
    Q::Message: Send + Sync + 'static,
    F: Future<Output = Handled> + Send + 'static,
{
    let bell = worker.store.bell_of(&worker.queue);
    let mut answers = Vec::new();
    loop {
        let seen = bell.rung();
        let claimer = worker.clone();
        let claimed = call(move || {
            let (mut answers, mut errors) = (answers, 0);
            let claims = claimer.next(&mut answers, &mut errors, Duration::ZERO)?;
            let alarm_ns = claimer.store.next_claim_ns(&claimer.queue).ok().flatten();
            Some((
                claims,
                answers,
                alarm_ns,
                claimer.store.running_ns().unwrap_or_default(),
            ))
        });
        let Ok(Some((claims, left, alarm_ns, now_ns))) = claimed.await else {
            drop(alive);
            return;
        };
        answers = left;
        if claims.is_empty() {
            let alarm_ns = alarm_ns.unwrap_or(u64::MAX);
            worker.store.sleep_until(&bell, seen, now_ns, alarm_ns).await;
            continue;
        }
        let kept: Vec<_> = claims.into_iter().map(|claim| worker.keep(claim)).collect();
        for (kept, place) in kept {
            let answer = match worker.delivery(&kept) {
                Err(answer) => answer,
                Ok(delivery) => match spawn_task(handler(delivery)).await {
                    Ok(handled) => answer_of(handled),
                    Err(ended) => answer_of(Handled::failed(match ended.try_into_panic() {
                        Ok(panic) => panic_text(&*panic),
                        Err(_) => "the handler was cancelled".to_owned(),
                    })),
                },
            };
            answers.push(Answered::new(kept, place, answer));
        }
    }
}
