//! Assertions, and waiting for conditions.

use std::time::{Duration, Instant};

use serde_json::Value;

/// Timeout of any condition, for a busy machine.
const EVENTUALLY_TIMEOUT: Duration = Duration::from_secs(120);

/// The first and the longest interval between checks: polling must not slow down a real service.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(10);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A value with a text.
pub(crate) trait Text {
    fn text(&self) -> String;
}

impl Text for str {
    fn text(&self) -> String {
        self.to_owned()
    }
}

impl Text for String {
    fn text(&self) -> String {
        self.clone()
    }
}

impl Text for Value {
    fn text(&self) -> String {
        self.as_str()
            .map_or_else(|| self.to_string(), str::to_owned)
    }
}

impl<T: Text + ?Sized> Text for &T {
    fn text(&self) -> String {
        T::text(self)
    }
}

/// Asserts that a text contains `part`.
#[track_caller]
pub(crate) fn assert_contains(text: &(impl Text + ?Sized), part: &str) {
    let text = text.text();
    assert!(text.contains(part), "no {part:?} in {text:?}");
}

/// Asserts that a text does not contain `part`.
#[track_caller]
pub(crate) fn assert_lacks(text: &(impl Text + ?Sized), part: &str) {
    let text = text.text();
    assert!(!text.contains(part), "{part:?} in {text:?}");
}

/// Asserts that a text starts with `part`.
#[track_caller]
pub(crate) fn assert_starts_with(text: &(impl Text + ?Sized), part: &str) {
    let text = text.text();
    assert!(text.starts_with(part), "no {part:?} first in {text:?}");
}

/// Asserts that a text ends with `part`.
#[track_caller]
pub(crate) fn assert_ends_with(text: &(impl Text + ?Sized), part: &str) {
    let text = text.text();
    assert!(text.ends_with(part), "no {part:?} last in {text:?}");
}

/// The texts in one member of all rows of a list.
#[track_caller]
pub(crate) fn member_texts<'a>(list: &'a Value, member: &str) -> Vec<&'a str> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row[member].as_str().unwrap()).collect()
}

/// `assert_has!(value, {"member": 1})`, as [`assert_has`].
macro_rules! assert_has {
    ($value:expr, $members:tt) => {
        $crate::harness::assert_has(&$value, serde_json::json!($members))
    };
}

/// Asserts that `value` has these members with these values, also in nested objects; it may have more.
#[track_caller]
pub(crate) fn assert_has(value: &Value, members: Value) {
    fn check(whole: &Value, value: &Value, wanted: &Value) -> Result<(), String> {
        let Value::Object(members) = wanted else {
            let is_same = value == wanted;
            return is_same
                .then_some(())
                .ok_or(format!("{value} is not {wanted} in {whole}"));
        };
        let mut members = members.iter();
        members.try_for_each(|(name, wanted)| check(whole, &value[name], wanted))
    }
    if let Err(difference) = check(value, value, &members) {
        panic!("{difference}");
    }
}

/// Polls until `ask` returns a value.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    let mut interval = MIN_POLL_INTERVAL;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        let waited = started.elapsed();
        assert!(waited < EVENTUALLY_TIMEOUT, "waited in vain for {what}");
        tokio::time::sleep(interval).await;
        interval = (interval * 5 / 4).min(MAX_POLL_INTERVAL);
    }
}

/// Polls until `ask` returns true.
pub(crate) async fn wait_until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    eventually(what, async || ask().await.then_some(())).await;
}
