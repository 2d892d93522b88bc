//! The end of the attempts to send the result of a task to its URL, as it is kept in a tag.

/// Whether the result was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It was taken.
    Done,
    /// It was not taken, for this reason.
    Failed(String),
}

const DONE: &str = "done";

impl Delivery {
    pub(super) fn parse(value: &str) -> Self {
        match value {
            DONE => Self::Done,
            reason => Self::Failed(reason.to_owned()),
        }
    }

    pub(super) fn value(&self) -> &str {
        match self {
            Self::Done => DONE,
            Self::Failed(reason) => reason,
        }
    }
}
