//! Work side by side.

use std::thread;

use anyhow::anyhow;

/// Does the work for all items at a time; the results are in their order.
pub(crate) fn map<'a, T: Sync, R: Send>(
    items: &'a [T],
    work: impl Fn(&'a T) -> anyhow::Result<R> + Sync,
) -> Vec<anyhow::Result<R>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |item| scope.spawn(move || work(item));
        let threads: Vec<_> = items.iter().map(start).collect();
        let results = threads.into_iter().map(thread::ScopedJoinHandle::join);
        let result =
            |joined: thread::Result<_>| joined.unwrap_or_else(|_| Err(anyhow!("it broke off")));
        results.map(result).collect()
    })
}
