//! The attempts to send the result of a task to its URL, as they are kept in a tag.

/// The attempts so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// One was answered with success.
    pub(crate) is_done: bool,
    /// Attempts without success.
    pub(crate) failed: u32,
    /// Why the last one failed.
    pub(crate) reason: String,
}

const DONE: &str = "done";

impl Delivery {
    /// The last attempt was a success.
    pub(crate) fn done(self) -> Self {
        Self {
            is_done: true,
            ..self
        }
    }

    /// The last attempt failed.
    pub(crate) fn failed(self, reason: String) -> Self {
        Self {
            failed: self.failed.saturating_add(1),
            reason,
            ..self
        }
    }

    pub(super) fn parse(value: &str) -> Self {
        if value == DONE {
            return Self::default().done();
        }
        let (failed, reason) = value.split_once(' ').unwrap_or((value, ""));
        Self {
            is_done: false,
            failed: failed.parse().unwrap_or_default(),
            reason: reason.to_owned(),
        }
    }

    pub(super) fn value(&self) -> String {
        match self.is_done {
            true => DONE.to_owned(),
            false => format!("{} {}", self.failed, self.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_round_trip() {
        let failed = Delivery::default()
            .failed("HTTP 500".into())
            .failed("a b".into());
        assert_eq!((failed.failed, failed.reason.as_str()), (2, "a b"));
        for delivery in [Delivery::default(), failed, Delivery::default().done()] {
            assert_eq!(Delivery::parse(&delivery.value()), delivery);
        }
    }
}
