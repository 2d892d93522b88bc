//! Tags that this server keeps at a conversation, so that a task's promises survive every restart:
//! its fingerprint, what it waits for, its budget.

use upstream::text::one_line;
use upstream::time::Timestamp;
use uuid::Uuid;

use crate::api::Tags;

/// The agent server takes values of up to 256 characters.
const MAX_VALUE: usize = 200;

const FINGERPRINT: &str = "mcppurpose";
const TITLE: &str = "mcptask";
const WAITS_FOR: &str = "mcpwaits";
const SECONDS: &str = "mcpseconds";
const DEADLINE: &str = "mcpdeadline";
const COST: &str = "mcpcost";
const STOP_REASON: &str = "mcpstopped";
const BASE: &str = "mcpbase";

/// The tags of a conversation, ours and those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConversationTags(Tags);

/// Why a task has not begun although it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// The agent server, or our own limit, has no slot for it.
    Slot,
    /// Its repository is being fetched by this command on the agent server's side.
    Repository(Uuid),
}

/// Why we stopped a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A caller asked for it.
    Cancelled,
    /// Its time was used up.
    Time,
    /// Its money was used up.
    Cost,
    /// Its repository could not be fetched.
    NoRepository,
}

impl ConversationTags {
    /// The tags of a conversation, read anew.
    pub(crate) fn new(tags: Tags) -> Self {
        Self(tags)
    }

    /// The tags as the agent server keeps them.
    pub(crate) fn as_tags(&self) -> &Tags {
        &self.0
    }

    fn set(&mut self, name: &str, value: Option<String>) {
        match value {
            Some(value) => self.0.insert(name.to_owned(), value),
            None => self.0.remove(name),
        };
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Fingerprint of what it was created for; none where it was created without a key.
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.get(FINGERPRINT)
    }

    pub(crate) fn set_fingerprint(&mut self, fingerprint: String) {
        self.set(FINGERPRINT, Some(fingerprint));
    }

    /// The first words of the task.
    pub(crate) fn title(&self) -> Option<&str> {
        self.get(TITLE)
    }

    pub(crate) fn set_title(&mut self, task: &str) {
        self.set(TITLE, Some(one_line(task, 80)));
    }

    /// The reason why it has not begun.
    pub(crate) fn waits_for(&self) -> Option<WaitsFor> {
        match self.get(WAITS_FOR)? {
            "room" => Some(WaitsFor::Slot),
            command => Uuid::try_parse(command).ok().map(WaitsFor::Repository),
        }
    }

    pub(crate) fn set_waits_for(&mut self, waits_for: Option<WaitsFor>) {
        let value = waits_for.map(|waits_for| match waits_for {
            WaitsFor::Slot => "room".to_owned(),
            WaitsFor::Repository(command) => command.simple().to_string(),
        });
        self.set(WAITS_FOR, value);
    }

    /// Seconds that one run may take.
    pub(crate) fn seconds(&self) -> Option<u64> {
        self.get(SECONDS)?.parse().ok()
    }

    pub(crate) fn set_seconds(&mut self, seconds: u64) {
        self.set(SECONDS, Some(seconds.to_string()));
    }

    /// When the run under way must have ended.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.get(DEADLINE)?.parse().ok()?).ok()
    }

    /// Returns true if the run under way should have ended.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline()
            .is_some_and(|deadline| Timestamp::now() > deadline)
    }

    /// US dollars that the task may cost.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.get(COST)?.parse().ok()
    }

    pub(crate) fn set_cost(&mut self, cost: f64) {
        self.set(COST, Some(cost.to_string()));
    }

    /// A run begins now: what held the last one up is over.
    pub(crate) fn begin(&mut self) {
        self.set_waits_for(None);
        self.set_stop_reason(None);
        let now = Timestamp::now().as_second().unsigned_abs();
        let deadline = self.seconds();
        let deadline = deadline.map(|seconds| now.saturating_add(seconds).to_string());
        self.set(DEADLINE, deadline);
    }

    /// All slots are taken now, and nothing else is in its way.
    pub(crate) fn wait_for_slot(&mut self) {
        self.end();
        self.set_stop_reason(None);
        self.set_waits_for(Some(WaitsFor::Slot));
    }

    /// The run is over.
    pub(crate) fn end(&mut self) {
        self.set(DEADLINE, None);
    }

    /// Why we stopped it.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        match self.get(STOP_REASON)? {
            "cancelled" => Some(StopReason::Cancelled),
            "time" => Some(StopReason::Time),
            "cost" => Some(StopReason::Cost),
            "repository" => Some(StopReason::NoRepository),
            _ => None,
        }
    }

    pub(crate) fn set_stop_reason(&mut self, reason: Option<StopReason>) {
        let value = reason.map(|reason| match reason {
            StopReason::Cancelled => "cancelled",
            StopReason::Time => "time",
            StopReason::Cost => "cost",
            StopReason::NoRepository => "repository",
        });
        self.set(STOP_REASON, value.map(str::to_owned));
    }

    /// The git commit or tree that its directory held before it began.
    pub(crate) fn base(&self) -> Option<&str> {
        let hex = |base: &&str| base.len() <= 64 && base.chars().all(|c| c.is_ascii_hexdigit());
        self.get(BASE).filter(hex)
    }

    pub(crate) fn set_base(&mut self, base: Option<&str>) {
        self.set(BASE, base.map(|base| one_line(base, MAX_VALUE)));
    }

    /// Tags of a copy of the conversation: none of the last run.
    pub(crate) fn for_copy(&self) -> Self {
        let mut copy = self.clone();
        for name in [FINGERPRINT, WAITS_FOR, DEADLINE, STOP_REASON] {
            copy.set(name, None);
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: [(&str, &str); 1]) -> ConversationTags {
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        ConversationTags::new(pairs.into())
    }

    #[test]
    fn tags_are_read_again_and_others_tags_stay() {
        let mut tags = tags([("team", "a")]);
        let command = Uuid::from_u128(7);
        tags.set_waits_for(Some(WaitsFor::Repository(command)));
        tags.set_seconds(60);
        tags.set_cost(0.25);
        tags.set_stop_reason(Some(StopReason::Time));
        let mut tags = ConversationTags::new(tags.as_tags().clone());
        assert_eq!(tags.waits_for(), Some(WaitsFor::Repository(command)));
        assert_eq!((tags.seconds(), tags.cost()), (Some(60), Some(0.25)));
        assert_eq!(tags.stop_reason(), Some(StopReason::Time));
        assert_eq!(tags.deadline(), None);
        tags.begin();
        assert_eq!((tags.waits_for(), tags.stop_reason()), (None, None));
        let left = tags.deadline().unwrap().duration_since(Timestamp::now());
        assert!((50..=60).contains(&left.as_secs()) && !tags.is_overdue());
        assert_eq!(tags.get("team"), Some("a"));
        assert_eq!(tags.for_copy().deadline(), None);
    }

    #[test]
    fn a_base_is_hex() {
        assert_eq!(tags([("mcpbase", "HEAD; x")]).base(), None);
    }
}
