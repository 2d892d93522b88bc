//! What this server notes at a conversation (its tags), so that a task's promises survive every
//! restart: what it was ordered for, what it waits for, its budget. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::excerpt;

/// The agent server takes values of up to 256 characters.
const MAX_VALUE: usize = 200;

const PURPOSE: &str = "mcppurpose";
const TITLE: &str = "mcptask";
const WAITS: &str = "mcpwaits";
const SECONDS: &str = "mcpseconds";
const DEADLINE: &str = "mcpdeadline";
const COST: &str = "mcpcost";
const STOPPED: &str = "mcpstopped";
const BASE: &str = "mcpbase";

/// The tags of a conversation, ours and those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Notes(BTreeMap<String, String>);

/// Why a task has not begun although it was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The agent server, or our own limit, has no room for it.
    ForRoom,
    /// Its repository is being fetched by this command on the agent server's side.
    ForRepository(Uuid),
}

/// Why we stopped a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Somebody asked for it.
    Cancelled,
    /// Its time was used up.
    Time,
    /// Its money was used up.
    Cost,
    /// Its repository could not be fetched.
    NoRepository,
}

impl Notes {
    fn set(&mut self, name: &str, value: Option<String>) {
        match value {
            Some(value) => self.0.insert(name.to_owned(), value),
            None => self.0.remove(name),
        };
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Fingerprint of what it was ordered for; none where it was ordered without a key.
    pub(crate) fn purpose(&self) -> Option<&str> {
        self.get(PURPOSE)
    }

    pub(crate) fn set_purpose(&mut self, purpose: String) {
        self.set(PURPOSE, Some(purpose));
    }

    /// The first words of the task.
    pub(crate) fn title(&self) -> Option<&str> {
        self.get(TITLE)
    }

    pub(crate) fn set_title(&mut self, task: &str) {
        self.set(TITLE, Some(excerpt::line(task, 80)));
    }

    /// What it waits for before it begins.
    pub(crate) fn waits(&self) -> Option<Waits> {
        match self.get(WAITS)? {
            "room" => Some(Waits::ForRoom),
            command => Uuid::try_parse(command).ok().map(Waits::ForRepository),
        }
    }

    pub(crate) fn set_waits(&mut self, waits: Option<Waits>) {
        let value = waits.map(|waits| match waits {
            Waits::ForRoom => "room".to_owned(),
            Waits::ForRepository(command) => command.simple().to_string(),
        });
        self.set(WAITS, value);
    }

    /// Seconds that one run may take.
    pub(crate) fn seconds(&self) -> Option<u64> {
        self.get(SECONDS)?.parse().ok()
    }

    pub(crate) fn set_seconds(&mut self, seconds: u64) {
        self.set(SECONDS, Some(seconds.to_string()));
    }

    /// When the run under way must have ended, in seconds since 1970.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.get(DEADLINE)?.parse().ok()
    }

    /// US dollars that the task may cost.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.get(COST)?.parse().ok()
    }

    pub(crate) fn set_cost(&mut self, cost: f64) {
        self.set(COST, Some(cost.to_string()));
    }

    /// A run begins at `now`, in seconds since 1970: what held the last one up is over.
    pub(crate) fn begin(&mut self, now: u64) {
        self.set_waits(None);
        self.set_stopped(None);
        let deadline = self.seconds().map(|seconds| (now + seconds).to_string());
        self.set(DEADLINE, deadline);
    }

    /// There is no room for it now, and nothing else in its way.
    pub(crate) fn wait_for_room(&mut self) {
        self.end();
        self.set_stopped(None);
        self.set_waits(Some(Waits::ForRoom));
    }

    /// The run is over.
    pub(crate) fn end(&mut self) {
        self.set(DEADLINE, None);
    }

    /// Why we stopped it.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        match self.get(STOPPED)? {
            "cancelled" => Some(Stopped::Cancelled),
            "time" => Some(Stopped::Time),
            "cost" => Some(Stopped::Cost),
            "repository" => Some(Stopped::NoRepository),
            _ => None,
        }
    }

    pub(crate) fn set_stopped(&mut self, stopped: Option<Stopped>) {
        let value = stopped.map(|stopped| match stopped {
            Stopped::Cancelled => "cancelled",
            Stopped::Time => "time",
            Stopped::Cost => "cost",
            Stopped::NoRepository => "repository",
        });
        self.set(STOPPED, value.map(str::to_owned));
    }

    /// The git commit or tree that its directory held before it began.
    pub(crate) fn base(&self) -> Option<&str> {
        let hex = |base: &&str| base.len() <= 64 && base.chars().all(|c| c.is_ascii_hexdigit());
        self.get(BASE).filter(hex)
    }

    pub(crate) fn set_base(&mut self, base: Option<&str>) {
        self.set(BASE, base.map(|base| excerpt::line(base, MAX_VALUE)));
    }

    /// What a copy of the conversation starts with: nothing of the last run.
    pub(crate) fn for_copy(&self) -> Self {
        let mut copy = self.clone();
        for name in [PURPOSE, WAITS, DEADLINE, STOPPED] {
            copy.set(name, None);
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_again_and_others_tags_stay() {
        let mut notes: Notes = serde_json::from_str(r#"{"team":"a"}"#).unwrap();
        let command = Uuid::from_u128(7);
        notes.set_waits(Some(Waits::ForRepository(command)));
        notes.set_seconds(60);
        notes.set_cost(0.25);
        notes.set_stopped(Some(Stopped::Time));
        let mut notes: Notes =
            serde_json::from_str(&serde_json::to_string(&notes).unwrap()).unwrap();
        assert_eq!(notes.waits(), Some(Waits::ForRepository(command)));
        assert_eq!((notes.seconds(), notes.cost()), (Some(60), Some(0.25)));
        assert_eq!(notes.deadline(), None);
        notes.begin(1_000);
        assert_eq!((notes.waits(), notes.stopped()), (None, None));
        assert_eq!(notes.deadline(), Some(1_060));
        assert_eq!(notes.get("team"), Some("a"));
        assert_eq!(notes.for_copy().deadline(), None);
    }

    #[test]
    fn a_base_is_hex() {
        let notes: Notes = serde_json::from_str(r#"{"mcpbase":"HEAD; x"}"#).unwrap();
        assert_eq!(notes.base(), None);
    }
}
