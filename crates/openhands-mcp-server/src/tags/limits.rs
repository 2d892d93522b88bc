//! The runs of a task and its limits over all of them.

use upstream::time::Timestamp;

use super::{
    COST_TAG, ConversationTags, DEADLINE_TAG, SECONDS_LEFT_TAG, SECONDS_TAG, STEPS_TAG, StopReason,
};
use crate::budget::{Budget, TaskLimits};

impl ConversationTags {
    /// The time limit of the task.
    pub(crate) fn seconds(&self) -> Option<u64> {
        self.get(SECONDS_TAG)?.parse().ok()
    }

    /// The rest of the time limit; `None` if there is none.
    pub(crate) fn seconds_left(&self) -> Option<u64> {
        let left = self
            .get(SECONDS_LEFT_TAG)
            .and_then(|left| left.parse().ok());
        left.or_else(|| self.seconds())
    }

    /// The time of all runs so far; `None` without a limit.
    pub(crate) fn seconds_used(&self) -> Option<u64> {
        let left = match self.deadline() {
            Some(deadline) => deadline.as_second() - Timestamp::now().as_second(),
            None => self.seconds_left()?.try_into().ok()?,
        };
        let limit: i64 = self.seconds()?.try_into().ok()?;
        Some((limit - left).max(0).unsigned_abs())
    }

    /// Returns true if a run of the task has ended.
    pub(crate) fn has_run(&self) -> bool {
        self.get(SECONDS_LEFT_TAG).is_some()
    }

    /// The limit of steps over several runs; `None` before the second one.
    pub(crate) fn steps(&self) -> Option<u64> {
        self.get(STEPS_TAG)?.parse().ok()
    }

    /// Sets the limits for the next run of a task that has run before.
    pub(crate) fn continue_with(&mut self, limits: &TaskLimits) {
        if let (Some(old), Some(new)) = (self.seconds(), limits.seconds) {
            let left = self.seconds_left().unwrap_or(old);
            let left = left.saturating_add(new.saturating_sub(old));
            self.set(SECONDS_LEFT_TAG, Some(left.to_string()));
        }
        let text = |limit: Option<u64>| limit.map(|limit| limit.to_string());
        self.set(SECONDS_TAG, text(limits.seconds));
        self.set(STEPS_TAG, text(limits.steps));
        self.set(COST_TAG, limits.cost.map(|cost| cost.to_string()));
    }

    pub(crate) fn set_budget(&mut self, budget: &Budget) {
        self.set(SECONDS_TAG, Some(budget.seconds.to_string()));
        self.set(COST_TAG, budget.cost.map(|cost| cost.to_string()));
    }

    /// The deadline of the current run.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.get(DEADLINE_TAG)?.parse().ok()?).ok()
    }

    /// Returns true if the current run has exceeded its deadline.
    pub(crate) fn is_overdue(&self) -> bool {
        let deadline = self.deadline();
        deadline.is_some_and(|deadline| Timestamp::now() > deadline)
    }

    /// The limit of the task's cost in US dollars.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.get(COST_TAG)?.parse().ok()
    }

    /// Marks the start of a run: sets its deadline, and clears why the task was stopped.
    pub(crate) fn begin_run(&mut self) {
        self.set_fetch(None);
        self.set_stop_reason(None);
        let now = Timestamp::now().as_second().unsigned_abs();
        let deadline = self.seconds_left();
        let deadline = deadline.map(|seconds| now.saturating_add(seconds).to_string());
        self.set(DEADLINE_TAG, deadline);
    }

    /// Marks the end of a run that ends now.
    pub(crate) fn end_run(&mut self) {
        self.end_run_at(Timestamp::now());
    }

    /// Marks the end of a run that ended at this time.
    pub(crate) fn end_run_at(&mut self, end: Timestamp) {
        if let Some(deadline) = self.deadline() {
            // Whole seconds, like the start: runs of less than a second would add up otherwise.
            let left = (deadline.as_second() - end.as_second())
                .max(0)
                .unsigned_abs();
            let left = left.min(self.seconds().unwrap_or(left));
            self.set(SECONDS_LEFT_TAG, Some(left.to_string()));
        }
        self.set(DEADLINE_TAG, None);
    }

    /// Marks the task as stopped for this reason.
    pub(crate) fn mark_stopped(&mut self, reason: StopReason) {
        self.end_run();
        self.set_fetch(None);
        self.set_stop_reason(Some(reason));
    }
}
