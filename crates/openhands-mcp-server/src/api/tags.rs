//! Tags that this server keeps at a conversation: what its caller asked for, and what cannot be read from its events.
//! They are kept at the agent server, so they survive every restart of this server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use upstream::text::one_line;
use upstream::time::Timestamp;
use uuid::Uuid;

use crate::api::conversations::{Conversation, Execution};
use crate::budget::{Limit, Limits, Usage};

/// The agent server takes values of up to 256 characters.
const MAX_VALUE_CHARS: usize = 200;

/// The names of tags.
pub(crate) mod tag {
    pub(crate) const FINGERPRINT: &str = "mcppurpose";
    /// The first words of the task.
    pub(crate) const TITLE: &str = "mcptask";
    /// The id of the script that fetches its repository.
    pub(super) const FETCH: &str = "mcpwaits";
    pub(super) const SECONDS: &str = "mcpseconds";
    /// The time of its runs: the seconds of those that have ended, or with an `@` the second since which it runs.
    pub(super) const TIME: &str = "mcptime";
    /// The limit of steps over several runs; the agent server enforces that of the first one.
    pub(super) const STEPS: &str = "mcpsteps";
    pub(super) const COST: &str = "mcpcost";
    pub(super) const STOP_REASON: &str = "mcpstopped";
    /// The id of the principal that created the task; there is none if it has no owner.
    pub(crate) const OWNER: &str = "mcpowner";
    /// The name of that principal.
    pub(crate) const PRINCIPAL: &str = "mcpprincipal";
    /// The name of the model's profile that its caller chose.
    pub(crate) const MODEL: &str = "mcpmodel";
    pub(crate) const CALLBACK: &str = "mcpcallback";
    /// The end of the attempts to send the result.
    pub(super) const DELIVERY: &str = "mcpdelivery";
    /// The id of the snapshot of its directory before the task started, or the reason why there is none.
    pub(crate) const BASE: &str = "mcpbase";
    /// The directory with that snapshot.
    pub(crate) const SNAPSHOTS: &str = "mcpsnapshots";
    /// The command that checks the finished task.
    pub(crate) const VERIFY: &str = "mcpverify";
    pub(crate) const CHECK: &str = "mcpcheck";
    pub(crate) const REPOSITORY: &str = "mcprepository";
    pub(super) const PUBLISHED: &str = "mcppublished";
    pub(crate) const PUBLISHING: &str = "mcppublishing";
    /// The commit on the machine of the agent server that was published last, if the one at the git host has what others
    /// have added.
    pub(crate) const OWN_COMMIT: &str = "mcpown";
    /// The names of the MCP servers that did not answer when the task was created.
    pub(crate) const DEAD_SERVERS: &str = "mcpdead";
    /// The branch on which it works, if that is known.
    pub(crate) const BRANCH: &str = "mcpbranch";
    /// The directory of the repository that its worktree belongs to.
    pub(crate) const WORKTREE_OF: &str = "mcpworktree";
    /// The parts of its repository that were not fetched.
    pub(crate) const GAPS: &str = "mcpgaps";
}

const DELIVERED: &str = "done";

/// The tags of a conversation: ours, and those of other programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ConversationTags {
    values: BTreeMap<String, String>,
    /// The names of those that were set since they were read: another server may have written others.
    #[serde(skip)]
    set: BTreeSet<String>,
}

/// The reason why we stopped a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A caller asked for it.
    Cancelled,
    /// It was used up.
    Limit(Limit),
    /// Its repository could not be fetched.
    NoRepository,
    /// The profile of its model could not be used.
    NoModel,
    /// All slots were taken when it was to start or to go on.
    NoSlot,
}

const STOP_REASONS: [(StopReason, &str); 7] = [
    (StopReason::Cancelled, "cancelled"),
    (StopReason::Limit(Limit::Seconds), "time"),
    (StopReason::Limit(Limit::Cost), "cost"),
    (StopReason::Limit(Limit::Steps), "steps"),
    (StopReason::NoRepository, "repository"),
    (StopReason::NoModel, "model"),
    (StopReason::NoSlot, "slot"),
];

impl ConversationTags {
    /// The tags of a task. If its last run has ended, they say when: the time of its last event changes when
    /// they are written.
    pub(crate) fn from_task(task: &Conversation) -> Self {
        let mut tags = task.tags.clone();
        if task.execution_status != Execution::Running {
            tags.end_run(task.last_event_at());
        }
        tags
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(crate) fn set(&mut self, name: &str, value: Option<String>) {
        self.set.insert(name.to_owned());
        match value {
            Some(value) => self.values.insert(name.to_owned(), value),
            None => self.values.remove(name),
        };
    }

    /// Returns true if some were set since they were read.
    pub(crate) fn are_changed(&self) -> bool {
        !self.set.is_empty()
    }

    /// The tags of the conversation `now`, with the ones that were set here.
    pub(super) fn merged_into(&self, mut now: Self) -> Self {
        for name in &self.set {
            now.set(name, self.values.get(name).cloned());
        }
        now
    }

    /// Sets all that were set since then back to what they were in `before`.
    pub(crate) fn set_back(&mut self, before: &Self) {
        *self = Self {
            values: before.values.clone(),
            set: &self.set | &before.set,
        };
    }

    /// Keeps the value in one line, as far as it fits.
    pub(crate) fn set_line(&mut self, name: &str, value: Option<&str>) {
        self.set(name, value.map(|value| one_line(value, MAX_VALUE_CHARS)));
    }

    /// Keeps the value if it is short enough.
    pub(crate) fn set_if_short(&mut self, name: &str, value: Option<&str>) {
        let value = value.filter(|value| value.chars().count() <= MAX_VALUE_CHARS);
        self.set(name, value.map(str::to_owned));
    }

    /// The id of the script that fetches its repository; `None` if there is none to wait for.
    pub(crate) fn fetch(&self) -> Option<Uuid> {
        Uuid::try_parse(self.get(tag::FETCH)?).ok()
    }

    pub(crate) fn set_fetch(&mut self, script: Option<Uuid>) {
        self.set(tag::FETCH, script.map(|script| script.simple().to_string()));
    }

    /// The reason why we stopped the task.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        let value = self.get(tag::STOP_REASON)?;
        let value = value.split_once(' ').map_or(value, |(name, _)| name);
        let known = STOP_REASONS.iter().find(|(_, name)| *name == value);
        known.map(|(reason, _)| *reason)
    }

    /// The text of git or OpenHands about the reason of a stop.
    pub(crate) fn stop_text(&self) -> Option<&str> {
        let (_, text) = self.get(tag::STOP_REASON)?.split_once(' ')?;
        Some(text)
    }

    /// Sets the reason why we stopped the task, and what git or OpenHands says about it.
    pub(crate) fn set_stop_reason(&mut self, reason: Option<StopReason>, said: &str) {
        let mut known = STOP_REASONS.iter();
        let known = known.find(|(known, _)| Some(*known) == reason);
        let value = known.map(|(_, name)| format!("{name} {said}"));
        self.set_line(tag::STOP_REASON, value.as_deref().map(str::trim_end));
    }

    /// The URL that gets the result, and the number of results for which it was given.
    pub(crate) fn callback(&self) -> Option<(&str, u32)> {
        let value = self.get(tag::CALLBACK)?;
        let (url, results) = value.split_once(' ').unwrap_or((value, "1"));
        Some((url, results.parse().unwrap_or(1)))
    }

    /// Sets the URL that gets the next result, too.
    pub(crate) fn renew_callback(&mut self, url: &str) {
        let results = self.callback().map_or(0, |(_, results)| results);
        self.set(tag::DELIVERY, None);
        self.set(
            tag::CALLBACK,
            Some(format!("{url} {}", results.saturating_add(1))),
        );
    }

    /// The end of the attempts to send the result to its URL, or the reason why it was not taken; `None` if it is still
    /// to be sent.
    pub(crate) fn delivery(&self) -> Option<Result<(), &str>> {
        self.get(tag::DELIVERY).map(|value| match value {
            DELIVERED => Ok(()),
            reason => Err(reason),
        })
    }

    pub(crate) fn set_delivery(&mut self, sent: &Result<(), String>) {
        let value = sent.as_ref().map_or_else(String::as_str, |()| DELIVERED);
        self.set(tag::DELIVERY, Some(one_line(value, MAX_VALUE_CHARS)));
    }

    /// The run that checks the task after this number of steps.
    pub(crate) fn check(&self, steps: u64) -> Option<CheckRun> {
        let run: CheckRun = serde_json::from_str(self.get(tag::CHECK)?).ok()?;
        (run.steps == steps).then_some(run)
    }

    /// The id of the snapshot of its directory before the task started.
    pub(crate) fn base(&self) -> Option<&str> {
        let hex = |base: &&str| base.len() <= 64 && base.chars().all(|c| c.is_ascii_hexdigit());
        self.get(tag::BASE).filter(hex)
    }

    /// The reason why there is no such snapshot.
    pub(crate) fn no_base(&self) -> Option<&str> {
        self.get(tag::BASE).filter(|_| self.base().is_none())
    }

    /// The URL of the task's repository, and its branch if that is known.
    pub(crate) fn repository(&self) -> Option<(&str, Option<&str>)> {
        let value = self.get(tag::REPOSITORY)?;
        let (url, branch) = value.split_once(' ').unwrap_or((value, ""));
        Some((url, Some(branch).filter(|branch| !branch.is_empty())))
    }

    /// The commit that was published last, and its branch.
    pub(crate) fn published(&self) -> Option<(&str, &str)> {
        self.get(tag::PUBLISHED)?.split_once(' ')
    }

    /// `own` is the same commit on the machine of the agent server.
    pub(crate) fn set_published(&mut self, commit: &str, branch: &str, own: &str) {
        self.set(tag::PUBLISHED, Some(format!("{commit} {branch}")));
        self.set(tag::PUBLISHING, None);
        self.set(tag::OWN_COMMIT, (own != commit).then(|| own.to_owned()));
    }

    /// The commit that was about to be pushed, and its branch; it may have arrived.
    pub(crate) fn publishing(&self) -> Option<(&str, &str)> {
        self.get(tag::PUBLISHING)?.split_once(' ')
    }

    // The time of a task over all of its runs, and its limits: all times are those of the agent server's clock.

    /// Seconds of the runs of a task, if the last one has ended.
    fn ended(&self) -> Option<i64> {
        self.get(tag::TIME)?.parse().ok()
    }

    /// The second at which the present run would have begun if there had been no other.
    fn since(&self) -> Option<i64> {
        self.get(tag::TIME)?.strip_prefix('@')?.parse().ok()
    }

    /// The time limit of the task.
    pub(crate) fn seconds(&self) -> Option<u64> {
        self.get(tag::SECONDS)?.parse().ok()
    }

    /// The time of all runs so far.
    pub(crate) fn seconds_used(&self, now: Timestamp) -> u64 {
        let present = self.since().map(|second| now.as_second() - second);
        let used = present.or(self.ended()).unwrap_or_default();
        used.max(0).unsigned_abs()
    }

    /// Returns true if a run of the task has ended.
    pub(crate) fn has_run(&self) -> bool {
        self.ended().is_some()
    }

    /// Returns true if a run of the task has begun whose end is not known yet.
    pub(crate) fn is_in_run(&self) -> bool {
        self.since().is_some()
    }

    /// The limit of steps over several runs; `None` before the second one.
    pub(crate) fn steps(&self) -> Option<u64> {
        self.get(tag::STEPS)?.parse().ok()
    }

    /// The limit of the task's cost in US dollars.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.get(tag::COST)?.parse().ok()
    }

    /// The usage of a task with these tags over all of its runs, of which the agent took so many steps.
    pub(crate) fn used(&self, task: &Conversation, steps: u64, now: Timestamp) -> Usage {
        Usage {
            steps,
            seconds: self.seconds_used(now),
            cost: task.stats.cost(),
        }
    }

    /// The limits of a task with these tags, over all of its runs.
    pub(crate) fn limits(&self, task: &Conversation) -> Limits {
        Limits {
            steps: self.steps().or(task.max_iterations),
            seconds: self.seconds(),
            cost: self.cost(),
        }
    }

    /// Sets the limits of a task. That of the steps of its first run is kept by the agent server.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        let text = |limit: Option<u64>| limit.map(|limit| limit.to_string());
        self.set(tag::SECONDS, text(limits.seconds));
        self.set(tag::STEPS, text(limits.steps));
        // With an exponent, because other numbers may be longer than a tag.
        self.set(tag::COST, limits.cost.map(|cost| format!("{cost:e}")));
    }

    /// The limit for which a task that has used this much is stopped. The agent server enforces the limit of the steps of its first
    /// run.
    pub(crate) fn exceeded(&self, used: &Usage) -> Option<Limit> {
        let seconds = self.seconds().filter(|_| self.is_in_run());
        if seconds.is_some_and(|max| used.seconds > max) {
            Some(Limit::Seconds)
        } else if self.cost().is_some_and(|max| used.cost > max) {
            Some(Limit::Cost)
        } else if self.steps().is_some_and(|max| used.steps > max) {
            Some(Limit::Steps)
        } else {
            None
        }
    }

    /// Marks the start of a run, and clears why the task was stopped.
    pub(crate) fn begin_run(&mut self, now: Timestamp) {
        self.set_fetch(None);
        self.set_stop_reason(None, "");
        let used = i64::try_from(self.seconds_used(now)).unwrap_or(i64::MAX);
        let since = now.as_second().saturating_sub(used);
        self.set(tag::TIME, Some(format!("@{since}")));
    }

    /// Marks the end of a run.
    pub(crate) fn end_run(&mut self, end: Timestamp) {
        if let Some(second) = self.since() {
            // Whole seconds, like the start: runs of less than a second would add up otherwise.
            let used = (end.as_second() - second).max(0);
            self.set(tag::TIME, Some(used.to_string()));
        }
    }

    /// Marks the task as stopped for this reason, about which git or OpenHands may say more.
    pub(crate) fn mark_stopped(&mut self, reason: StopReason, said: &str, now: Timestamp) {
        self.end_run(now);
        self.set_fetch(None);
        self.set_stop_reason(Some(reason), said);
    }
}

/// A run of the verify command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckRun {
    /// The id of its script.
    pub(crate) script: Uuid,
    /// The steps of the task when it started.
    pub(crate) steps: u64,
    /// The time of its start, in seconds.
    started: u64,
}

impl CheckRun {
    /// A run that starts now, by the clock of the agent server.
    pub(crate) fn new(script: Uuid, steps: u64, now: Timestamp) -> Self {
        let started = now.as_second().unsigned_abs();
        Self {
            script,
            steps,
            started,
        }
    }

    /// The time since its start.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        let now = now.as_second().unsigned_abs();
        Duration::from_secs(now.saturating_sub(self.started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: [(&str, &str); 1]) -> ConversationTags {
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        ConversationTags {
            values: pairs.into(),
            set: BTreeSet::new(),
        }
    }

    #[test]
    fn time_limit_is_of_all_runs() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut tags = tags([("mcpseconds", "60")]);
        assert_eq!((tags.has_run(), tags.seconds_used(at(1_000))), (false, 0));
        let is_overdue = |tags: &ConversationTags, second| {
            let (steps, cost) = (0, 0.0);
            let seconds = tags.seconds_used(at(second));
            let used = Usage {
                steps,
                seconds,
                cost,
            };
            tags.exceeded(&used) == Some(Limit::Seconds)
        };
        tags.begin_run(at(1_000));
        assert!(!is_overdue(&tags, 1_060) && is_overdue(&tags, 1_061));
        tags.end_run(at(1_040));
        // The end of a run is known once.
        tags.end_run(at(1_050));
        assert_eq!((tags.has_run(), tags.seconds_used(at(9_000))), (true, 40));
        assert!(!is_overdue(&tags, 9_000));
        tags.begin_run(at(2_000));
        assert!(!is_overdue(&tags, 2_020) && is_overdue(&tags, 2_021));
        let (steps, cost) = (None, None);
        let seconds = Some(90);
        tags.set_limits(&Limits {
            steps,
            seconds,
            cost,
        });
        assert!(!is_overdue(&tags, 2_050) && is_overdue(&tags, 2_051));
        // A clock that was set back.
        tags.end_run(at(1_000));
        assert_eq!(tags.seconds_used(at(3_000)), 0);
    }

    #[test]
    fn limit_of_any_cost_is_kept() {
        for cost in [f64::MAX, f64::MIN_POSITIVE, 0.1] {
            let mut tags = tags([("mcpcost", "1")]);
            let cost = Some(cost);
            tags.set_limits(&Limits {
                cost,
                ..Limits::default()
            });
            assert_eq!(tags.cost(), cost);
            assert!(tags.get(tag::COST).unwrap().len() < MAX_VALUE_CHARS);
        }
    }

    #[test]
    fn base_must_be_hexadecimal() {
        let tags = tags([("mcpbase", "HEAD; x")]);
        assert_eq!((tags.base(), tags.no_base()), (None, Some("HEAD; x")));
    }

    #[test]
    fn only_what_was_set_replaces_the_tags_of_others() {
        let mut own = tags([("a", "read")]);
        assert!(!own.are_changed());
        let before = own.clone();
        own.set("b", Some("set".into()));
        own.set("c", None);
        let others = tags([("a", "written")]);
        let merged = own.merged_into(others.clone());
        assert_eq!(
            [merged.get("a"), merged.get("b")],
            [Some("written"), Some("set")]
        );
        // Also if the first write has arrived.
        own.set_back(&before);
        let merged = own.merged_into(merged);
        assert_eq!(merged.values, others.values);
    }
}
