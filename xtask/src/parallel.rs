//! Does work in parallel.

use std::thread;

use anyhow::anyhow;

/// Does the work for all items at the same time; returns the results in the order of the items.
pub(crate) fn map<'a, T: Sync, R: Send>(
    items: &'a [T],
    work: impl Fn(&'a T) -> anyhow::Result<R> + Sync,
) -> Vec<anyhow::Result<R>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |item| scope.spawn(move || work(item));
        let threads: Vec<_> = items.iter().map(start).collect();
        let results = threads.into_iter().map(|thread| thread.join());
        let panicked = |_| Err(anyhow!("it panicked"));
        results
            .map(|result| result.unwrap_or_else(panicked))
            .collect()
    })
}
