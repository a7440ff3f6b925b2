//! The threads that serve clients, one for each core. A request stays on the thread that took it, and goes on over
//! connections of that thread alone, so that it wakes no other.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The threads, which run until this is dropped.
#[derive(Debug)]
pub struct Cores {
    cores: Vec<Core>,
    ended: CancellationToken,
}

/// One of them.
#[derive(Debug)]
struct Core {
    runtime: Handle,
    /// How many tasks were given to it that are not done.
    tasks: Arc<AtomicUsize>,
}

/// One `T` for each thread that serves, and one more for all others.
#[derive(Debug)]
pub(crate) struct PerCore<T> {
    cores: Box<[T]>,
    elsewhere: T,
}

thread_local! {
    /// Which of the threads this is, if it is one.
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Cores {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no thread, or not what a runtime needs.
    pub fn start() -> io::Result<Self> {
        let mut started = Self {
            cores: Vec::new(),
            ended: CancellationToken::new(),
        };
        for place in 0..count() {
            started.cores.push(Core::start(place, started.ended.clone())?);
        }
        Ok(started)
    }

    /// Runs `task` on the thread that has the fewest of them.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(core) = self.cores.iter().min_by_key(|core| core.load()) else {
            return tokio::spawn(task);
        };
        let busy = Busy::of(core);
        core.runtime.spawn(async move {
            task.await;
            drop(busy);
        })
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Core {
    /// Starts the thread at `place`, which runs until `ended`.
    fn start(place: usize, ended: CancellationToken) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        thread::Builder::new().name(format!("core-{place}")).spawn(move || {
            PLACE.set(Some(place));
            runtime.block_on(ended.cancelled());
            runtime.shutdown_background();
        })?;
        Ok(Self {
            runtime: handle,
            tasks: Arc::default(),
        })
    }

    fn load(&self) -> usize {
        self.tasks.load(Ordering::Relaxed)
    }
}

/// A task that a thread has.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn of(core: &Core) -> Self {
        core.tasks.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&core.tasks))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> PerCore<T> {
    /// Makes all of them.
    pub(crate) fn new(mut make: impl FnMut() -> T) -> Self {
        Self {
            elsewhere: make(),
            cores: std::iter::repeat_with(make).take(count()).collect(),
        }
    }

    /// That of this thread.
    pub(crate) fn here(&self) -> &T {
        let of_core = PLACE.get().and_then(|place| self.cores.get(place));
        of_core.unwrap_or(&self.elsewhere)
    }
}

/// How many threads serve.
fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    #[tokio::test]
    async fn tasks_are_spread_and_stay_where_they_are() {
        let cores = Cores::start().unwrap();
        let values = Arc::new(PerCore::new(next_number()));
        let (told, mut telling) = mpsc::unbounded_channel();
        let mut ends = Vec::new();
        for _ in 0..count() {
            let (values, told) = (Arc::clone(&values), told.clone());
            let (end, ended) = oneshot::channel::<()>();
            ends.push(end);
            drop(cores.spawn(async move {
                let before = *values.here();
                tokio::task::yield_now().await;
                told.send((before, *values.here())).unwrap();
                drop(ended.await);
            }));
        }
        let mut used = BTreeSet::new();
        for _ in 0..count() {
            let (before, after) = telling.recv().await.unwrap();
            assert_eq!(before, after);
            used.insert(before);
        }
        assert_eq!(used, (1..=count()).collect(), "each has one");
        assert_eq!(*values.here(), 0, "others have their own");
        assert!(cores.cores.iter().all(|core| core.load() == 1));
        drop(ends);
    }

    #[tokio::test]
    async fn a_task_that_panics_or_is_dropped_is_none_any_more() {
        let cores = Cores::start().unwrap();
        let panicking = cores.spawn(async { panic!("as meant") });
        assert!(panicking.await.is_err());
        let waiting = cores.spawn(std::future::pending());
        waiting.abort();
        assert!(waiting.await.is_err());
        assert!(cores.cores.iter().all(|core| core.load() == 0));
    }

    #[tokio::test]
    async fn what_still_runs_ends_with_the_threads() {
        let cores = Cores::start().unwrap();
        let waiting = cores.spawn(std::future::pending());
        drop(cores);
        assert!(waiting.await.unwrap_err().is_cancelled());
    }

    fn next_number() -> impl FnMut() -> usize {
        let mut numbers = 0..;
        move || numbers.next().unwrap()
    }
}
