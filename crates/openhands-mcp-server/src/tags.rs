//! Tags that this server keeps at a conversation: what its caller asked for, and what cannot be read from its events.
//! They are kept at the agent server, so they survive every restart of this server.

mod check_run;
mod delivery;
mod limits;
#[cfg(test)]
mod tests;

use upstream::text::one_line;
use uuid::Uuid;

pub(crate) use check_run::CheckRun;
pub(crate) use delivery::Delivery;

use crate::api::{Conversation, Execution, Tags};

/// The agent server takes values of up to 256 characters.
const MAX_VALUE_CHARS: usize = 200;
const MAX_TITLE_CHARS: usize = 80;

const FINGERPRINT_TAG: &str = "mcppurpose";
const TITLE_TAG: &str = "mcptask";
/// The id of the script that fetches its repository.
const FETCH_TAG: &str = "mcpwaits";
const SECONDS_TAG: &str = "mcpseconds";
const DEADLINE_TAG: &str = "mcpdeadline";
/// The rest of the time limit while the task does not run.
const SECONDS_LEFT_TAG: &str = "mcpleft";
/// The limit of steps over several runs; the agent server enforces that of the first one.
const STEPS_TAG: &str = "mcpsteps";
const COST_TAG: &str = "mcpcost";
const STOP_REASON_TAG: &str = "mcpstopped";
const OWNER_TAG: &str = "mcpowner";
const PRINCIPAL_TAG: &str = "mcpprincipal";
/// The name of a model's profile.
const MODEL_TAG: &str = "mcpmodel";
const CALLBACK_TAG: &str = "mcpcallback";
/// The end of the attempts to send the result.
const DELIVERY_TAG: &str = "mcpdelivery";
const BASE_TAG: &str = "mcpbase";
/// The directory with that snapshot.
const SNAPSHOTS_TAG: &str = "mcpsnapshots";
const VERIFY_TAG: &str = "mcpverify";
const CHECK_TAG: &str = "mcpcheck";
const REPOSITORY_TAG: &str = "mcprepository";
const PUBLISHED_TAG: &str = "mcppublished";
const PUBLISHING_TAG: &str = "mcppublishing";
const DEAD_SERVERS_TAG: &str = "mcpdead";
const BRANCH_TAG: &str = "mcpbranch";
/// The parts of its repository that were not fetched.
const GAPS_TAG: &str = "mcpgaps";

/// The tags of a conversation: ours, and those of other programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConversationTags(Tags);

/// The reason why we stopped a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A caller asked for it.
    Cancelled,
    /// Its time was used up.
    Time,
    /// Its money was used up.
    Cost,
    /// Its steps were used up over several runs.
    Steps,
    /// Its repository could not be fetched.
    NoRepository,
    /// The profile of its model could not be used.
    NoModel,
    /// All slots were taken when it was to start or to go on.
    NoSlot,
}

const STOP_REASONS: [(StopReason, &str); 7] = [
    (StopReason::Cancelled, "cancelled"),
    (StopReason::Time, "time"),
    (StopReason::Cost, "cost"),
    (StopReason::Steps, "steps"),
    (StopReason::NoRepository, "repository"),
    (StopReason::NoModel, "model"),
    (StopReason::NoSlot, "slot"),
];

impl ConversationTags {
    pub(crate) fn new(tags: Tags) -> Self {
        Self(tags)
    }

    /// The tags of a task. If its last run has ended, they say when: the time of its last event changes when
    /// they are written.
    pub(crate) fn from_task(task: &Conversation) -> Self {
        let mut tags = Self::new(task.tags.clone());
        if task.execution_status != Execution::Running {
            tags.end_run_at(task.last_event_at());
        }
        tags
    }

    /// The tags as they are sent to the agent server.
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

    /// The fingerprint of the task; `None` if it was created without an idempotency key.
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.get(FINGERPRINT_TAG)
    }

    pub(crate) fn set_fingerprint(&mut self, fingerprint: String) {
        self.set(FINGERPRINT_TAG, Some(fingerprint));
    }

    /// The first words of the task.
    pub(crate) fn title(&self) -> Option<&str> {
        self.get(TITLE_TAG)
    }

    pub(crate) fn set_title(&mut self, task: &str) {
        self.set(TITLE_TAG, Some(one_line(task, MAX_TITLE_CHARS)));
    }

    /// The id of the script that fetches its repository; `None` if there is none to wait for.
    pub(crate) fn fetch(&self) -> Option<Uuid> {
        Uuid::try_parse(self.get(FETCH_TAG)?).ok()
    }

    pub(crate) fn set_fetch(&mut self, script: Option<Uuid>) {
        self.set(FETCH_TAG, script.map(|script| script.simple().to_string()));
    }

    /// The reason why we stopped the task.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        let value = self.get(STOP_REASON_TAG)?;
        let value = value.split_once(' ').map_or(value, |(name, _)| name);
        let known = STOP_REASONS.iter().find(|(_, name)| *name == value);
        known.map(|(reason, _)| *reason)
    }

    /// What git or OpenHands says about that reason.
    pub(crate) fn stop_text(&self) -> Option<&str> {
        let (_, text) = self.get(STOP_REASON_TAG)?.split_once(' ')?;
        Some(text)
    }

    /// Adds such a text to the reason, unless it is empty.
    pub(crate) fn set_stop_text(&mut self, text: &str) {
        if let Some(reason) = self.get(STOP_REASON_TAG).filter(|_| !text.is_empty()) {
            let value = one_line(&format!("{reason} {text}"), MAX_VALUE_CHARS);
            self.set(STOP_REASON_TAG, Some(value));
        }
    }

    /// The branch on which it works, if that is known.
    pub(crate) fn branch(&self) -> Option<&str> {
        self.get(BRANCH_TAG)
    }

    /// Keeps the branch, if it is short enough.
    pub(crate) fn set_branch(&mut self, branch: Option<&str>) {
        let branch = branch.filter(|branch| branch.chars().count() <= MAX_VALUE_CHARS);
        self.set(BRANCH_TAG, branch.map(str::to_owned));
    }

    /// The parts of its repository that were not fetched.
    pub(crate) fn gaps(&self) -> Option<&str> {
        self.get(GAPS_TAG)
    }

    pub(crate) fn set_gaps(&mut self, gaps: Option<&str>) {
        self.set(GAPS_TAG, gaps.map(|gaps| one_line(gaps, MAX_VALUE_CHARS)));
    }

    pub(crate) fn set_stop_reason(&mut self, reason: Option<StopReason>) {
        let known = STOP_REASONS
            .iter()
            .find(|(known, _)| Some(*known) == reason);
        self.set(STOP_REASON_TAG, known.map(|(_, name)| (*name).to_owned()));
    }

    /// The id of the principal that created the task; `None` if it has no owner.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.get(OWNER_TAG)
    }

    /// Returns true if these tags name no principal.
    pub(crate) fn is_unowned(tags: &Tags) -> bool {
        !tags.contains_key(OWNER_TAG)
    }

    pub(crate) fn set_owner(&mut self, owner: Option<(String, &str)>) {
        let name = owner
            .as_ref()
            .map(|(_, name)| one_line(name, MAX_VALUE_CHARS));
        self.set(PRINCIPAL_TAG, name);
        self.set(OWNER_TAG, owner.map(|(id, _)| id));
    }

    /// The name of the principal that created the task, or its id for a task of an earlier version.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.get(PRINCIPAL_TAG).or(self.owner())
    }

    /// The command that checks the finished task.
    pub(crate) fn verify(&self) -> Option<&str> {
        self.get(VERIFY_TAG)
    }

    pub(crate) fn set_verify(&mut self, command: Option<&str>) {
        self.set(VERIFY_TAG, command.map(str::to_owned));
    }

    /// The name of the model's profile that its caller chose.
    pub(crate) fn model(&self) -> Option<&str> {
        self.get(MODEL_TAG)
    }

    pub(crate) fn set_model(&mut self, name: Option<&str>) {
        self.set(MODEL_TAG, name.map(str::to_owned));
    }

    /// The URL that gets the result, and the number of results for which it was given.
    pub(crate) fn callback(&self) -> Option<(&str, u32)> {
        let value = self.get(CALLBACK_TAG)?;
        let (url, results) = value.split_once(' ').unwrap_or((value, "1"));
        Some((url, results.parse().unwrap_or(1)))
    }

    /// Sets the URL that gets the next result, too.
    pub(crate) fn renew_callback(&mut self, url: &str) {
        let results = self.callback().map_or(0, |(_, results)| results);
        self.set(DELIVERY_TAG, None);
        self.set(
            CALLBACK_TAG,
            Some(format!("{url} {}", results.saturating_add(1))),
        );
    }

    pub(crate) fn set_callback(&mut self, url: Option<&str>) {
        self.set(CALLBACK_TAG, url.map(str::to_owned));
    }

    /// The end of the attempts to send the result to its URL; `None` if it is still to be sent.
    pub(crate) fn delivery(&self) -> Option<Delivery> {
        self.get(DELIVERY_TAG).map(Delivery::parse)
    }

    pub(crate) fn set_delivery(&mut self, delivery: &Delivery) {
        self.set(
            DELIVERY_TAG,
            Some(one_line(delivery.value(), MAX_VALUE_CHARS)),
        );
    }

    /// The run that checks the task after this number of steps.
    pub(crate) fn check(&self, steps: u64) -> Option<CheckRun> {
        CheckRun::parse(self.get(CHECK_TAG)?).filter(|run| run.steps == steps)
    }

    pub(crate) fn set_check(&mut self, run: &CheckRun) {
        self.set(CHECK_TAG, Some(run.value()));
    }

    /// The names of the MCP servers that did not answer when the task was created.
    pub(crate) fn dead_servers(&self) -> Option<&str> {
        self.get(DEAD_SERVERS_TAG)
    }

    pub(crate) fn set_dead_servers(&mut self, names: &[&str]) {
        let names = Some(names.join(", ")).filter(|names| !names.is_empty());
        self.set(
            DEAD_SERVERS_TAG,
            names.map(|names| one_line(&names, MAX_VALUE_CHARS)),
        );
    }

    /// The id of the snapshot of its directory before the task started.
    pub(crate) fn base(&self) -> Option<&str> {
        let hex = |base: &&str| base.len() <= 64 && base.chars().all(|c| c.is_ascii_hexdigit());
        self.get(BASE_TAG).filter(hex)
    }

    pub(crate) fn set_base(&mut self, base: Option<&str>) {
        self.set(BASE_TAG, base.map(|base| one_line(base, MAX_VALUE_CHARS)));
    }

    /// The directory with that snapshot.
    pub(crate) fn snapshots(&self) -> Option<&str> {
        self.get(SNAPSHOTS_TAG)
    }

    /// Keeps the directory, if it is short enough.
    pub(crate) fn set_snapshots(&mut self, directory: &str) {
        let is_short = directory.chars().count() <= MAX_VALUE_CHARS;
        self.set(SNAPSHOTS_TAG, is_short.then(|| directory.to_owned()));
    }

    /// The URL of the task's repository, and its branch if that is known.
    pub(crate) fn repository(&self) -> Option<(&str, Option<&str>)> {
        let value = self.get(REPOSITORY_TAG)?;
        let (url, branch) = value.split_once(' ').unwrap_or((value, ""));
        Some((url, Some(branch).filter(|branch| !branch.is_empty())))
    }

    /// Keeps the repository, if it is short enough.
    pub(crate) fn set_repository(&mut self, url: &str, branch: Option<&str>) {
        let value = format!("{url} {}", branch.unwrap_or_default());
        let is_short = value.chars().count() <= MAX_VALUE_CHARS;
        self.set(REPOSITORY_TAG, is_short.then_some(value));
    }

    /// The commit that was published last, and its branch.
    pub(crate) fn published(&self) -> Option<(&str, &str)> {
        self.get(PUBLISHED_TAG)?.split_once(' ')
    }

    pub(crate) fn set_published(&mut self, commit: &str, branch: &str) {
        self.set(PUBLISHED_TAG, Some(format!("{commit} {branch}")));
        self.set(PUBLISHING_TAG, None);
    }

    /// The commit that was about to be pushed, and its branch; it may have arrived.
    pub(crate) fn publishing(&self) -> Option<(&str, &str)> {
        self.get(PUBLISHING_TAG)?.split_once(' ')
    }

    pub(crate) fn set_publishing(&mut self, commit: &str, branch: &str) {
        self.set(PUBLISHING_TAG, Some(format!("{commit} {branch}")));
    }
}
