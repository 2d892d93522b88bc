//! Calls that need a person: the gateway asks the caller's user, or the call waits for an operator. Nothing in the
//! arguments of a call can take the place of either.
//!
//! * [`arguments`]: the arguments as people see them; calls whose arguments cannot be shown are refused.
//! * [`answer`]: tells a program of a call that waits, and takes the decision of a program or a principal over HTTP.
//! * [`record`]: the stored form of a call that waits; ends those whose gateway is gone.

mod answer;
mod arguments;
mod record;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gateway_access::{Admission, EffectName, Roles, Rule};
use gateway_store::events::{Event, EventLog, EventStatus, kind};
use gateway_store::state::{Entry, EntryChange, EntryKind, Expected, StateStore};
use hmac_sha256::Hash;
use mcp_core::server::{OriginalRequest, PreviousRounds, Principal};
use mcp_core::tool::{Call, Effect, InputRequest, ToolError, ToolErrorKind};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use upstream::text::{clean, hexadecimal, truncate};
use upstream::time::rfc3339;
use uuid::Uuid;

use self::answer::Webhook;
pub use self::answer::{MADE_NOW, Refusal, decide};
use self::arguments::ShownArguments;
pub use self::record::{Approval, ApprovalStatus, read, running};
use self::record::{SeenGateways, now};

/// The member of the state between two rounds that names a call to which people have agreed.
const AGREED: &str = "agreed";

/// Judges the calls that need a person.
pub struct Approvals {
    state: Arc<StateStore>,
    log: Arc<EventLog>,
    rules: Mutex<Arc<ApprovalRules>>,
    /// The name of this gateway while it runs.
    gateway: String,
    /// The calls that wait for an operator, by the id of their approval.
    parked: Mutex<HashMap<String, ParkedCall>>,
    /// Notified when one of them has left without an end that is stored.
    left: Notify,
    /// Cancelled when the gateway stops: no call that waits is made then.
    stopping: CancellationToken,
    rounds: Rounds,
    seen: SeenGateways,
}

/// A call that waits at this gateway.
struct ParkedCall {
    /// Its caller.
    principal: Option<String>,
    /// Its arguments with their hidden values, if it has any.
    whole: Option<String>,
}

/// The calls that need a person, of all callers. Has no `Debug`, since the URL may be a secret.
#[derive(Clone, PartialEq)]
pub struct ApprovalConfig {
    /// Tools about which the caller's user is asked.
    pub confirm: Vec<Rule>,
    /// Tools about which an operator decides.
    pub approve: Vec<Rule>,
    /// The time that a person has.
    pub timeout: Duration,
    /// A URL that is told of each call that waits for an operator. Its path may be a secret.
    pub webhook: Option<String>,
    /// A principal may approve its own calls.
    pub allow_own: bool,
}

impl ApprovalConfig {
    /// The time that a person has, unless it is set.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
}

impl Default for ApprovalConfig {
    fn default() -> Self {
        Self {
            confirm: Vec::new(),
            approve: Vec::new(),
            timeout: Self::DEFAULT_TIMEOUT,
            webhook: None,
            allow_own: false,
        }
    }
}

/// The rules of one configuration.
#[derive(Default)]
pub struct ApprovalRules {
    /// The roles; `None` if every caller may use everything.
    pub roles: Option<Arc<Roles>>,
    /// Judges calls again when a person has agreed; `None` without roles and views.
    pub admission: Option<Arc<Admission>>,
    /// The rules for all callers, and the settings.
    pub config: ApprovalConfig,
}

/// A call that may need a person.
pub struct GuardedCall<'a> {
    /// The published name of its tool.
    pub tool: &'a str,
    /// The key of its backend.
    pub backend: &'a str,
    /// The effect of its tool.
    pub effect: Effect,
    /// The description of its tool, which its backend has written.
    pub description: &'a str,
    /// The JSON of its arguments.
    pub arguments: &'a str,
    /// The call itself.
    pub call: &'a Call,
    /// Why it cannot be made any more as people are shown it: its tool or its backend is another one now.
    pub withdrawn: &'a (dyn Fn() -> Option<String> + Sync),
}

/// Why a call that has waited must not be made any more: the end of its wait, and the reason for people, unless the end
/// says it.
type Lost = (ApprovalStatus, Option<String>);

impl GuardedCall<'_> {
    fn origin(&self) -> Option<&OriginalRequest> {
        self.call.extension()
    }

    /// The name of the caller's token.
    fn caller(&self) -> Option<&str> {
        let principal = self.origin()?.caller.info.principal.as_ref();
        principal.map(|principal| &*principal.name)
    }

    /// The tokens that are cancelled when its client has left, and when the client's bearer token is revoked.
    fn ends(&self) -> [Option<&CancellationToken>; 2] {
        let origin = self.origin();
        [
            origin.and_then(|origin| origin.caller.disconnected.as_deref()),
            origin.and_then(|origin| origin.caller.revoked.as_deref()),
        ]
    }

    /// Completes when no client may have the result any more: the call is cancelled, or its client has left in any era,
    /// or has lost its token.
    async fn abandoned(&self) {
        let ended = async |token: Option<&CancellationToken>| match token {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        };
        let [left, revoked] = self.ends();
        tokio::select! {
            () = self.call.cancelled() => {}
            () = ended(left) => {}
            () = ended(revoked) => {}
        }
    }

    fn is_abandoned(&self) -> bool {
        let mut ends = self.ends().into_iter().flatten();
        self.call.is_cancelled() || ends.any(CancellationToken::is_cancelled)
    }
}

/// A call that may be made.
pub struct Admitted<'a> {
    approvals: &'a Approvals,
    /// Its id, if people have agreed to it.
    agreed: Option<(String, Agreement)>,
}

impl Admitted<'_> {
    /// The id of the agreement, for the state between two rounds.
    pub fn id(&self) -> Option<String> {
        self.agreed.as_ref().map(|(id, _)| id.clone())
    }

    /// The operator who has approved it.
    pub fn approved_by(&self) -> Option<&str> {
        self.agreed.as_ref()?.1.by.as_deref()
    }

    /// Keeps the agreement for the next round: the backend asks the client something.
    pub fn keep(self) {
        if let Some((id, agreement)) = self.agreed {
            self.approvals.rounds.keep(id, agreement);
        }
    }
}

impl Approvals {
    /// Keeps the calls that wait in `state`, and records them in `log`.
    pub fn new(state: Arc<StateStore>, log: Arc<EventLog>) -> Self {
        Self {
            state,
            log,
            rules: Mutex::default(),
            gateway: Uuid::new_v4().simple().to_string(),
            parked: Mutex::default(),
            left: Notify::new(),
            stopping: CancellationToken::new(),
            rounds: Rounds::default(),
            seen: SeenGateways::default(),
        }
    }

    /// Follows a change of the configuration.
    pub fn set_rules(&self, rules: ApprovalRules) {
        *self.rules.lock() = Arc::new(rules);
    }

    /// Ends the calls that wait: the gateway stops.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// The end of a call that must not be made any more, whatever a person says; `None` if it may.
    fn lost(&self, guarded: &GuardedCall<'_>) -> Option<Lost> {
        let end = |status| Some((status, None));
        let call = guarded.call;
        if self.stopping.is_cancelled() || call.is_cancelled() && call.is_closing() {
            return end(ApprovalStatus::Gone);
        }
        let is_allowed = || {
            let Some(origin) = guarded.origin() else {
                return true;
            };
            match &self.rules().admission {
                None => origin.caller.view.is_none(),
                Some(admission) => {
                    let GuardedCall { tool, effect, .. } = *guarded;
                    admission.still_allows(origin, tool, effect, guarded.arguments)
                }
            }
        };
        let [_, revoked] = guarded.ends();
        if revoked.is_some_and(CancellationToken::is_cancelled) || !is_allowed() {
            return end(ApprovalStatus::Revoked);
        }
        if guarded.is_abandoned() {
            return end(ApprovalStatus::Cancelled);
        }
        (guarded.withdrawn)().map(|reason| (ApprovalStatus::Changed, Some(reason)))
    }

    fn rules(&self) -> Arc<ApprovalRules> {
        Arc::clone(&self.rules.lock())
    }

    /// True if backends may ask the clients of this principal.
    pub fn may_be_asked(&self, principal: Option<&Principal>) -> bool {
        let rules = self.rules();
        let roles = rules.roles.as_ref();
        roles.is_none_or(|roles| roles.role(principal).questions)
    }

    /// True if some calls need a person.
    pub fn has_rules(&self) -> bool {
        let rules = self.rules();
        let mut roles = rules.roles.iter().flat_map(|roles| &roles.roles);
        let config = &rules.config;
        let is_of_all = !config.confirm.is_empty() || !config.approve.is_empty();
        is_of_all || roles.any(|role| !role.confirm.is_empty() || !role.approve.is_empty())
    }

    /// True if calls of this tool may wait for an operator.
    pub fn may_wait(&self, tool: &str) -> bool {
        let rules = self.rules();
        let roles = rules.roles.iter().flat_map(|roles| &roles.roles);
        let of_roles = roles.flat_map(|role| &role.approve);
        of_roles
            .chain(&rules.config.approve)
            .any(|rule| rule.matches(tool))
    }

    /// Completes when the call may be made: at once if no rule is about it.
    ///
    /// # Errors
    /// A person has not agreed, and nothing was done; or the question to the client, which ends this round.
    pub async fn admit(&self, guarded: &GuardedCall<'_>) -> Result<Admitted<'_>, ToolError> {
        if self.next_rule(guarded, &[]).is_none() {
            return Ok(Admitted {
                approvals: self,
                agreed: None,
            });
        }
        let shown = ShownArguments::read(guarded.tool, guarded.arguments).map_err(|reason| {
            ToolError::forbidden(format!(
                "{} needs a person, who cannot be shown these arguments: {reason}. Nothing was done.",
                guarded.tool
            ))
        })?;
        // Identifies the call between its rounds. Each round needs the id of the agreement in the one before.
        let key = format!("{} {}", shown.hash, guarded.caller().unwrap_or_default());
        let round = guarded.call.extension::<PreviousRounds>();
        let agreed = round.and_then(|round| round.memo[AGREED].as_str());
        let agreement = match agreed.and_then(|id| self.rounds.take(id, &key)) {
            Some(agreement) => agreement,
            // Boxed, to keep the future of other calls small.
            None => Box::pin(self.agree(guarded, &shown, key)).await?,
        };
        let id = Uuid::new_v4().simple().to_string();
        Ok(Admitted {
            approvals: self,
            agreed: Some((id, agreement)),
        })
    }

    /// The next rule of now by which a person is asked about a call, but for those of the lists `asked`; and the time that
    /// the person has.
    fn next_rule(&self, guarded: &GuardedCall<'_>, asked: &[&str]) -> Option<(Rule, Duration)> {
        let rules = self.rules();
        let principal = guarded
            .origin()
            .and_then(|origin| origin.caller.info.principal.as_deref());
        let role = rules.roles.as_ref().map(|roles| roles.role(principal));
        let (role, config) = (role.into_iter(), &rules.config);
        let confirm = role.clone().flat_map(|role| &role.confirm);
        let approve = role.flat_map(|role| &role.approve);
        let confirm = confirm.chain(&config.confirm);
        let mut all = confirm.chain(approve).chain(&config.approve);
        let rule = all.find(|rule| rule.matches(guarded.tool) && !asked.contains(&rule.list))?;
        Some((rule.clone(), config.timeout))
    }

    /// Asks the people that the call needs, also those that it needs since it waits, and judges the call again.
    async fn agree(
        &self,
        guarded: &GuardedCall<'_>,
        shown: &ShownArguments,
        key: String,
    ) -> Result<Agreement, ToolError> {
        let (mut asked, mut by) = (Vec::new(), None);
        while let Some((rule, timeout)) = self.next_rule(guarded, &asked) {
            let approval = self.approval(guarded, shown, &rule, timeout);
            match rule.list {
                "confirm" => self.confirm(guarded, &approval, timeout).await?,
                _ => {
                    let wait = self.wait_for_operator(guarded, approval, shown, timeout);
                    by = wait.await?;
                }
            }
            asked.push(rule.list);
        }
        match self.lost(guarded) {
            None => Ok(Agreement { key, by }),
            Some(lost) => Err(ended(guarded.tool, lost)),
        }
    }

    /// The call as a person is asked about it, by this rule.
    fn approval(
        &self,
        guarded: &GuardedCall<'_>,
        shown: &ShownArguments,
        rule: &Rule,
        timeout: Duration,
    ) -> Approval {
        let created = now();
        let client = guarded.origin().map(|origin| origin.client.as_str());
        Approval {
            id: Uuid::new_v4().simple().to_string(),
            gateway: self.gateway.clone(),
            tool: guarded.tool.to_owned(),
            backend: guarded.backend.to_owned(),
            principal: guarded.caller().map(str::to_owned),
            client: client.filter(|name| !name.is_empty()).map(str::to_owned),
            effect: EffectName::from_effect(guarded.effect).to_string(),
            description: truncate(&clean(guarded.description), MAX_DESCRIPTION_CHARS),
            rule: rule.to_string(),
            arguments: shown.text.clone(),
            hash: shown.hash.clone(),
            created,
            expires: created.saturating_add(timeout.as_secs().try_into().unwrap_or(i64::MAX)),
            status: ApprovalStatus::Waiting,
            decided_by: None,
            decided_at: None,
            reason: None,
            token_hash: None,
        }
    }

    /// Records what has become of a call about which a person is asked; `more` are the facts of this event alone.
    fn record(
        &self,
        (kind, status): (&'static str, EventStatus),
        approval: &Approval,
        outcome: impl Serialize,
        more: Value,
    ) {
        let mut facts = json!({
            "tool_name": approval.tool,
            "backend": approval.backend,
            "principal": approval.principal,
            "outcome": outcome,
            "hash": approval.hash,
        });
        if let (Value::Object(facts), Value::Object(more)) = (&mut facts, more) {
            facts.extend(more.into_iter().filter(|(_, fact)| !fact.is_null()));
        }
        self.log.record(Event::new(kind, status, facts));
    }
}

/// The member of the state between two rounds that has a [`Question`].
const QUESTION: &str = "gateway.confirm";

/// A question that was asked in an earlier round. The client returns it signed.
#[derive(Serialize, Deserialize)]
struct Question {
    /// Its answer counts once.
    nonce: String,
    /// Seconds since 1970.
    expires: i64,
}

impl From<&Approval> for Question {
    fn from(asked: &Approval) -> Self {
        Self {
            nonce: asked.id.clone(),
            expires: asked.expires,
        }
    }
}

/// True if the state between two rounds is that of a question of the gateway, and not of a backend.
pub fn is_question(memo: &Value) -> bool {
    memo.get(QUESTION).is_some()
}

impl Approvals {
    /// Returns an error unless the user says yes to this tool with these arguments.
    async fn confirm(
        &self,
        guarded: &GuardedCall<'_>,
        asked: &Approval,
        mut timeout: Duration,
    ) -> Result<(), ToolError> {
        let (tool, call, effect) = (guarded.tool, guarded.call, &asked.effect);
        let record = |outcome| {
            let status = match outcome {
                CONFIRMED => EventStatus::Success,
                _ => EventStatus::Failure,
            };
            let more = json!({"rule": asked.rule});
            self.record((kind::CONFIRMATION, status), asked, outcome, more);
        };
        if !call.capabilities().elicitation {
            record("not asked");
            return Err(ToolError::forbidden(format!(
                "{tool} needs a confirmation by the user, and this client cannot ask for it: it has not declared \
                 `elicitation`. Nothing was done. Use a client with elicitation (2025-06-18 or newer)."
            )));
        }
        // The text of the backend comes last, so that nothing in it can pass for the arguments.
        let message = format!(
            "Allow the call of {tool} (backend {}, effect: {effect})? Its arguments:\n{}\n\nThe tool's description: \
             {:?}",
            asked.backend, asked.arguments, asked.description
        );
        let schema = json!({
            "type": "object",
            "properties": {"confirm": {"type": "boolean", "title": format!("Call {tool}?")}},
            "required": ["confirm"],
        });
        // In the modern era an answer counts for its key: with other arguments, or for another tool of the same name, the user
        // is asked again.
        let shown = format!("{}\n{effect}\n{}", asked.hash, guarded.description);
        let key = format!(
            "gateway.confirm.{}",
            hexadecimal(&Hash::hash(shown.as_bytes()))
        );
        let request = InputRequest::elicit(&message, schema);
        if call.waits_for_answers() {
            self.use_up(tool, &asked.into()).await?;
            call.extend_timeout(timeout + TIME_AFTER_DECISION);
        } else {
            let Some(question) = self.answered(guarded, &key).await? else {
                let question = json!({QUESTION: Question::from(asked)});
                let asked = call.require_input(&[(&key, request)], question);
                return Err(asked.unwrap_or_else(|error| error));
            };
            if question.expires < now() {
                timeout = Duration::ZERO;
            }
        }
        let question = call.ask(&key, request);
        let mut outcome = tokio::select! {
            biased;
            () = guarded.abandoned() => CANCELLED,
            () = self.stopping.cancelled() => CANCELLED,
            answer = within(timeout, question) => match answer {
                Some(Err(error)) if error.asks_client() => return Err(error),
                Some(Ok(answer)) => outcome(&answer),
                Some(Err(_)) => "no valid answer",
                None => "no answer in time",
            },
        };
        let lost = self.lost(guarded).filter(|_| outcome == CONFIRMED);
        if let Some((_, reason)) = &lost {
            outcome = reason.as_ref().map_or(CANCELLED, |_| CHANGED);
        }
        record(outcome);
        match (outcome, lost) {
            (CONFIRMED, _) => Ok(()),
            (_, Some(lost)) => Err(ended(tool, lost)),
            (CANCELLED, None) => Err(cancelled(tool)),
            _ => Err(ToolError::forbidden(format!(
                "The user has not confirmed the call of {tool} ({outcome}). Nothing was done."
            ))),
        }
    }

    /// The question of an earlier round that this round answers. An answer to nothing that was asked does not count,
    /// and none counts twice: also for the gateways with the same database, and for this one after a restart.
    ///
    /// # Errors
    /// That it counts only once cannot be stored.
    async fn answered(
        &self,
        guarded: &GuardedCall<'_>,
        key: &str,
    ) -> Result<Option<Question>, ToolError> {
        let find = || {
            let round = guarded.call.extension::<PreviousRounds>()?;
            let question = round.memo.get(QUESTION)?.clone();
            let question: Question = serde_json::from_value(question).ok()?;
            round.answers.contains_key(key).then_some(question)
        };
        let Some(question) = find() else {
            return Ok(None);
        };
        let is_first = self.use_up(guarded.tool, &question).await?;
        Ok(is_first.then_some(question))
    }

    /// Stores that a question has its answer. Returns true the first time.
    ///
    /// # Errors
    /// That cannot be stored: without a store no call is made that needs a person.
    async fn use_up(&self, tool: &str, question: &Question) -> Result<bool, ToolError> {
        let used = EntryChange {
            kind: EntryKind::UsedAnswer,
            key: question.nonce.clone(),
            expected: Expected::Missing,
            value: Some(question.expires.to_string().into()),
        };
        self.state.change(vec![used]).await.map_err(|_| {
            ToolError::unavailable(format!(
                "{tool} needs a confirmation by the user, and the gateway cannot store the answer now. Nothing was done; \
                 try again later."
            ))
        })
    }
}

/// The output of `work`; `None` if there is no time, or not enough.
async fn within<T>(timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
    match timeout.is_zero() {
        true => None,
        false => tokio::time::timeout(timeout, work).await.ok(),
    }
}

const CONFIRMED: &str = "confirmed";
const CANCELLED: &str = "cancelled";
const CHANGED: &str = "changed";

fn outcome(answer: &Value) -> &'static str {
    match answer["action"].as_str() {
        Some("accept") if answer["content"]["confirm"] == true => CONFIRMED,
        Some("accept") => "not confirmed",
        Some("decline") => "declined",
        Some("cancel") => "dismissed",
        _ => "no valid answer",
    }
}

/// Limit for the calls that wait at this gateway.
const MAX_PARKED_CALLS: usize = 100;

/// Limit for those of one caller.
const MAX_PARKED_CALLS_OF_CALLER: usize = 10;

/// Interval of the progress that keeps clients from giving up.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Limit for the characters of the description of a tool.
const MAX_DESCRIPTION_CHARS: usize = 500;

/// Timeout of the call after the decision.
const TIME_AFTER_DECISION: Duration = Duration::from_secs(60);

impl Approvals {
    /// Returns who has approved this call, or an error unless an operator does so in time.
    async fn wait_for_operator(
        &self,
        guarded: &GuardedCall<'_>,
        mut asked: Approval,
        shown: &ShownArguments,
        timeout: Duration,
    ) -> Result<Option<String>, ToolError> {
        let webhook = self.rules().config.webhook.clone().map(Webhook::new);
        asked.token_hash = webhook.as_ref().map(Webhook::token_hash);
        let created = asked.created;
        let parked = self.park(asked, shown.whole.clone())?;
        let stored = vec![
            record::store(&parked.approval, Expected::Missing),
            record::seen(&self.gateway, created),
        ];
        if !matches!(self.state.change(stored).await, Ok(true)) {
            return Err(ToolError::unavailable(format!(
                "{} waits for an operator, and the gateway cannot store that now. Nothing was done; try again later.",
                guarded.tool
            )));
        }
        self.receipt(&parked.approval);
        // Ends with this call.
        let _webhook = webhook.map(|webhook| webhook.send(&parked.approval));
        guarded.call.extend_timeout(timeout + TIME_AFTER_DECISION);
        guarded.call.continue_as_task().await;
        let end = self.wait(&parked, guarded, timeout).await;
        self.finish(parked, end, guarded.tool)
    }

    fn park(&self, approval: Approval, whole: Option<String>) -> Result<Parked<'_>, ToolError> {
        let entries = self.state.entries();
        let elsewhere = record::read_open(&entries);
        let elsewhere = elsewhere.filter(|(other, _)| {
            other.gateway != self.gateway && other.principal == approval.principal
        });
        let mut parked = self.parked.lock();
        let here = parked
            .values()
            .filter(|call| call.principal == approval.principal);
        let of_caller = here.count() + elsewhere.count();
        if of_caller >= MAX_PARKED_CALLS_OF_CALLER || parked.len() >= MAX_PARKED_CALLS {
            return Err(ToolError::unavailable(format!(
                "Too many calls wait for an operator. {} was not called; try again later.",
                approval.tool
            )));
        }
        let principal = approval.principal.clone();
        parked.insert(approval.id.clone(), ParkedCall { principal, whole });
        drop(parked);
        Ok(Parked {
            approvals: self,
            approval,
            is_open: true,
        })
    }

    /// Waits for the end of an approval. Also returns whether it is stored; if not, the sweep stores it later, and writes
    /// its receipt then.
    async fn wait(
        &self,
        parked: &Parked<'_>,
        guarded: &GuardedCall<'_>,
        timeout: Duration,
    ) -> (Approval, bool) {
        let mut entries = self.state.subscribe();
        let expiry = tokio::time::sleep(timeout);
        tokio::pin!(expiry);
        let mut tick = tokio::time::interval_at(Instant::now(), PROGRESS_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut progress = 0.0;
        let first = &parked.approval;
        let until = rfc3339(first.expires);
        loop {
            let wanted = tokio::select! {
                changed = entries.changed() => match changed {
                    Ok(()) => None,
                    // The gateway stops.
                    Err(_) => Some(ApprovalStatus::Gone),
                },
                () = guarded.abandoned() => Some(ApprovalStatus::Cancelled),
                () = self.stopping.cancelled() => Some(ApprovalStatus::Gone),
                () = &mut expiry => Some(ApprovalStatus::Expired),
                _ = tick.tick() => {
                    progress += 1.0;
                    let text = format!("waiting for an operator until {until}; approval {}", first.id);
                    guarded.call.progress(progress, None, &text);
                    None
                }
            };
            // Each time, also when the decision was faster. Also notices within a tick that the caller has lost its role.
            let lost = self.lost(guarded);
            let wanted = lost.as_ref().map(|(end, _)| *end).or(wanted);
            let known = Arc::clone(&entries.borrow_and_update());
            let entry = known.get(EntryKind::Approval, &first.id);
            let stored = entry.and_then(Entry::read::<Approval>);
            let (Some(stored), Some(entry)) = (stored, entry) else {
                return (
                    first.decided(ApprovalStatus::Gone, "the store", now()),
                    true,
                );
            };
            let Some(mut next) = stored.next(wanted, now()) else {
                continue;
            };
            if next.status == stored.status {
                return (stored, true);
            }
            next.reason = lost.and_then(|(_, reason)| reason);
            // If an operator was faster, that decision is read in the next round.
            let change = record::store(&next, Expected::entry(Some(entry)));
            match self.state.change(vec![change]).await {
                Ok(true) => return (next, true),
                Ok(false) if wanted.is_none() || !expiry.is_elapsed() => {}
                Ok(false) => {
                    // The decision may not be read yet.
                    expiry
                        .as_mut()
                        .reset(Instant::now() + Duration::from_millis(50));
                }
                Err(_) => {
                    let end = wanted.unwrap_or(ApprovalStatus::Gone);
                    let by = "the gateway, without its store";
                    return (next.decided(end, by, now()), false);
                }
            }
        }
    }

    /// Ends the wait. Returns who has approved the call, or an error.
    fn finish(
        &self,
        mut parked: Parked<'_>,
        (end, is_stored): (Approval, bool),
        tool: &str,
    ) -> Result<Option<String>, ToolError> {
        if is_stored {
            parked.is_open = false;
            self.receipt(&end);
        }
        let refused = |text: &str| {
            let id = &end.id;
            Err(ToolError::forbidden(format!(
                "{tool} needs an operator, {text} (approval {id}). Nothing was done."
            )))
        };
        match end.status {
            ApprovalStatus::Used => Ok(end.decided_by),
            ApprovalStatus::Refused => refused("who has refused this call"),
            ApprovalStatus::Cancelled => Err(cancelled(tool)),
            ApprovalStatus::Revoked => refused("and its caller has lost its token or its role"),
            ApprovalStatus::Changed => {
                let reason = end.reason.as_deref().unwrap_or_default();
                refused(&format!("and while it waited, {reason}"))
            }
            ApprovalStatus::Gone => {
                refused("and the gateway stops or has lost this call; call again later")
            }
            _ => refused("and no operator has decided in time"),
        }
    }

    /// Records the state of an approval.
    fn receipt(&self, approval: &Approval) {
        let status = match approval.status {
            ApprovalStatus::Waiting => EventStatus::Pending,
            ApprovalStatus::Used | ApprovalStatus::Approved => EventStatus::Success,
            _ => EventStatus::Failure,
        };
        let more = json!({
            "approval": approval.id,
            "expires": rfc3339(approval.expires),
            "decided_by": approval.decided_by,
            "decided_at": approval.decided_at.map(rfc3339),
            "reason": approval.reason,
            "rule": Some(&approval.rule).filter(|_| status == EventStatus::Pending),
        });
        self.record((kind::APPROVAL, status), approval, approval.status, more);
    }
}

/// The error of a call that must not be made any more although people have agreed.
fn ended(tool: &str, (_, reason): Lost) -> ToolError {
    let Some(reason) = reason else {
        return cancelled(tool);
    };
    ToolError::forbidden(format!(
        "{tool} was not called: while it waited for a person, {reason}. Nothing was done."
    ))
}

/// The error of a call that its client has cancelled while it waited.
fn cancelled(tool: &str) -> ToolError {
    let text = format!("{tool} was cancelled while it waited for a person. Nothing was done.");
    ToolError::new(ToolErrorKind::Cancelled, text)
}

/// A call that waits. When it is dropped, it has ended.
struct Parked<'a> {
    approvals: &'a Approvals,
    approval: Approval,
    /// True until its end is stored.
    is_open: bool,
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let Approvals { parked, left, .. } = self.approvals;
        parked.lock().remove(&self.approval.id);
        if self.is_open {
            // Its client has left: the sweep ends it.
            left.notify_one();
        }
    }
}

/// A client cannot continue a call after this time: its `requestState` has expired.
const MAX_AGE: Duration = Duration::from_secs(3_660);

/// Limit against attacks.
const MAX_ENTRIES: usize = 10_000;

#[derive(Default)]
struct Rounds {
    /// By their random ids, which the client gets signed: equal calls are told apart.
    agreed: Mutex<HashMap<String, (Agreement, Instant)>>,
}

/// A call to which people have agreed: its key, and the operator who has approved it.
struct Agreement {
    key: String,
    by: Option<String>,
}

impl Rounds {
    /// Keeps a call for its next round.
    fn keep(&self, id: String, agreement: Agreement) {
        let mut agreed = self.agreed.lock();
        if agreed.len() >= MAX_ENTRIES {
            agreed.retain(|_, (_, since)| since.elapsed() < MAX_AGE);
        }
        // Without room, people are asked again.
        if agreed.len() < MAX_ENTRIES {
            agreed.insert(id, (agreement, Instant::now()));
        }
    }

    /// Removes the call `key` that was kept; `None` if there is none, or another one.
    fn take(&self, id: &str, key: &str) -> Option<Agreement> {
        let (kept, since) = self.agreed.lock().remove(id)?;
        (kept.key == key && since.elapsed() < MAX_AGE).then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_for_one_round_of_one_call() {
        let rounds = Rounds::default();
        for id in ["1", "2"] {
            let (key, by) = ("call".to_owned(), Some("olga".to_owned()));
            rounds.keep(id.to_owned(), Agreement { key, by });
        }
        let taken = rounds.take("1", "call").unwrap();
        assert_eq!(taken.by.as_deref(), Some("olga"));
        assert!(rounds.take("1", "call").is_none());
        assert!(rounds.take("2", "another call").is_none());
        assert!(rounds.take("2", "call").is_none());
    }
}
