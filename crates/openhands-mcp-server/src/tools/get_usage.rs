//! `get_usage`

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::time::{Timestamp, before, parse_timestamp};

use crate::OpenHands;
use crate::api::{AgentServer, Conversation, round_cost};
use crate::tags::ConversationTags;

const DEFAULT_DAYS: u32 = 7;
/// Tasks that are read, in pages: the agent server takes 10 ms for each.
const MAX_TASKS: u64 = 1_000;
const PAGE_SIZE: u32 = 100;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Characters of a date.
const DATE_CHARS: usize = 10;

/// Sums the cost and tokens of tasks, by the day (UTC) on which they were created, by principal and by
/// agent profile.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetUsage {
    /// Default 7.
    days: Option<Bounded<1, 366>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct UsageReport {
    total: Usage,
    by_day: BTreeMap<String, Usage>,
    by_principal: BTreeMap<String, Usage>,
    by_profile: BTreeMap<String, Usage>,
    /// Gaps of the sums.
    not_counted: Vec<String>,
}

/// The usage of some tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(description = "")]
struct Usage {
    tasks: u64,
    /// US dollars.
    cost: f64,
    /// Read and written.
    tokens: u64,
}

impl Usage {
    fn add(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.cost = round_cost(self.cost + other.cost);
        self.tokens += other.tokens;
    }
}

impl Tool for GetUsage {
    const NAME: &'static str = "get_usage";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = UsageReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<UsageReport, ToolError> {
        let server = service.servers.shared_agent().await?;
        let days = self.days.map_or(DEFAULT_DAYS, Bounded::get);
        let since = before(Timestamp::now(), DAY * days);
        let profiles = server.agent_profiles().await?.0.into_iter();
        let profiles = profiles.map(|profile| (profile.id, profile.name)).collect();
        let owner = service.owner(call);
        let mut sums = Sums::new(profiles);
        let is_whole = each_since(&server, since, |task| {
            let tags = ConversationTags::new(task.tags.clone());
            if owner.as_ref().is_none_or(|owner| owner.may_see(&tags)) {
                sums.add(&task, &tags);
            }
        });
        let is_whole = is_whole.await?;
        Ok(sums.report(is_whole))
    }
}

/// Reads the tasks that were created since then, newest first. Returns false if there are too many.
async fn each_since(
    server: &AgentServer,
    since: Timestamp,
    mut each: impl FnMut(Conversation),
) -> Result<bool, ToolError> {
    let (mut read, mut page) = (0, None::<String>);
    loop {
        let listed = server
            .conversations(None, PAGE_SIZE, page.as_deref())
            .await?;
        for task in listed.items {
            if parse_timestamp(&task.created_at).is_some_and(|created| created < since) {
                return Ok(true);
            }
            read += 1;
            each(task);
        }
        page = listed.next_page_id;
        if page.is_none() {
            return Ok(true);
        }
        if read >= MAX_TASKS {
            return Ok(false);
        }
    }
}

/// The sums so far.
struct Sums {
    /// The names of the agent profiles, by id.
    profiles: BTreeMap<String, String>,
    report: UsageReport,
    /// Tasks with tokens and without a cost.
    unpriced: u64,
    oldest: String,
}

impl Sums {
    fn new(profiles: BTreeMap<String, String>) -> Self {
        Self {
            profiles,
            report: UsageReport {
                total: Usage::default(),
                by_day: BTreeMap::new(),
                by_principal: BTreeMap::new(),
                by_profile: BTreeMap::new(),
                not_counted: Vec::new(),
            },
            unpriced: 0,
            oldest: String::new(),
        }
    }

    fn add(&mut self, task: &Conversation, tags: &ConversationTags) {
        let (cost, tokens) = (task.stats.cost(), task.stats.tokens());
        self.unpriced += u64::from(tokens > 0 && cost <= 0.0);
        let usage = Usage {
            tasks: 1,
            cost,
            tokens,
        };
        let day: String = task.created_at.chars().take(DATE_CHARS).collect();
        self.oldest.clone_from(&day);
        let profile = task.profile().unwrap_or("none");
        let profile = self.profiles.get(profile).map_or(profile, String::as_str);
        let report = &mut self.report;
        report.total.add(usage);
        for (sums, key) in [
            (&mut report.by_day, day.as_str()),
            (&mut report.by_principal, tags.principal().unwrap_or("none")),
            (&mut report.by_profile, profile),
        ] {
            sums.entry(key.to_owned()).or_default().add(usage);
        }
    }

    fn report(mut self, is_whole: bool) -> UsageReport {
        let lacks = &mut self.report.not_counted;
        lacks.push("Deleted tasks.".to_owned());
        if !is_whole {
            lacks.push(format!(
                "Tasks before the newest {MAX_TASKS} of the agent server (of {} and earlier).",
                self.oldest
            ));
        }
        if self.unpriced > 0 {
            lacks.push(format!(
                "The cost of {} tasks: OpenHands does not know the price of their model.",
                self.unpriced
            ));
        }
        self.report
    }
}
