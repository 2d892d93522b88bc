//! Takes decisions over HTTP: `POST /approvals/ID` with `{"answer": "approve"}` or `"refuse"`, and the one-time
//! token of the webhook, or from a principal with the right `approve`. `"show"` decides nothing: it shows such a
//! principal the arguments with their hidden values, which are in the memory of the gateway of the call only.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gateway_access::Right;
use gateway_store::events::{EventStatus, kind};
use gateway_store::state::{Entry, EntryKind, Expected, StateStore};
use hmac_sha256::Hash;
use mcp_client::Endpoint;
use mcp_core::server::Principal;
use mcp_serve::OwnPaths;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use upstream::text::hexadecimal;
use upstream::time::rfc3339;
use uuid::Uuid;

use super::record::{Approval, ApprovalStatus, now};
use super::{Approvals, record};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    answer: Decision,
    token: Option<String>,
}

/// The answer of a person on the page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageAnswer {
    id: String,
    answer: Decision,
}

const INVALID: &str =
    r#"needs {"answer": "approve", "refuse" or "show"}, and "token" without a principal"#;

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Approve,
    Refuse,
    Show,
}

/// Longest time until the gateway of a call takes a decision: it reads what others store every 250 ms.
const MAX_DECISION_DELAY: Duration = Duration::from_secs(10);

/// The answer to a decision about a call that is not made any more.
const ENDED: Refusal = (409, "the call has ended, or its gateway does not answer");

/// The answer to an approval of a call that would be another one now.
const CHANGED: Refusal = (
    409,
    "its tool or its backend is not what was shown any more, so the call has ended and nothing was done; \
     `mcp-gateway approvals show` and the event log have the reason",
);

/// Explains an approval to the person who has approved.
pub const MADE_NOW: &str = "the call is made now, and can fail yet: the event log has its outcome";

const NO_STORE: Refusal = (503, "the store is not available; try again later");

/// A status of HTTP and the reason.
pub type Refusal = (u16, &'static str);

/// Decides about a call that waits, as it was stored in `entry`.
///
/// # Errors
/// Others were faster, or no gateway takes an approval: it is withdrawn then.
pub async fn decide(
    state: &StateStore,
    before: Approval,
    entry: &Entry,
    status: ApprovalStatus,
    by: &str,
) -> Result<Approval, Refusal> {
    let decided = before.decided(status, by, now());
    let change = record::store(&decided, Expected::entry(Some(entry)));
    match state.change(vec![change]).await {
        Ok(true) if status == ApprovalStatus::Approved => taken(state, decided, before).await,
        Ok(true) => Ok(decided),
        Ok(false) => Err((409, "it was decided by others meanwhile")),
        Err(_) => Err(NO_STORE),
    }
}

/// Waits until the gateway of a call uses its approval up, right before it makes the call. If it does not, the call
/// is as it was `before`: its gateway is gone, which is not known yet.
async fn taken(
    state: &StateStore,
    decided: Approval,
    before: Approval,
) -> Result<Approval, Refusal> {
    let mut entries = state.subscribe();
    let until = Instant::now() + MAX_DECISION_DELAY;
    loop {
        let known = Arc::clone(&entries.borrow_and_update());
        let entry = known.get(EntryKind::Approval, &decided.id);
        let stored = entry.and_then(Entry::read::<Approval>);
        match stored.map(|stored| stored.status) {
            Some(ApprovalStatus::Used) => return Ok(decided),
            Some(ApprovalStatus::Approved) => {}
            Some(ApprovalStatus::Changed) => return Err(CHANGED),
            _ => return Err(ENDED),
        }
        if let Ok(Ok(())) = timeout_at(until, entries.changed()).await {
            continue;
        }
        let change = record::store(&before, Expected::entry(entry));
        match state.change(vec![change]).await {
            Ok(true) => return Err(ENDED),
            // The gateway was faster.
            Ok(false) => {}
            Err(_) => return Err(NO_STORE),
        }
    }
}

impl OwnPaths for Approvals {
    fn prefix(&self) -> &'static str {
        ANSWER_PATH
    }

    fn post<'a>(
        &'a self,
        path: &'a str,
        caller: Option<&'a Principal>,
        body: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)> {
        Box::pin(async move {
            let id = path.strip_prefix(ANSWER_PATH).unwrap_or_default();
            let decided = match serde_json::from_slice(body) {
                Ok(answer) => self.decide(id, caller, answer).await,
                Err(_) => Err((400, INVALID)),
            };
            response(decided)
        })
    }
}

/// The status of HTTP and the body of an answer.
fn response(decided: Result<Value, Refusal>) -> (u16, String) {
    let (status, body) = match decided {
        Ok(answered) => (200, answered),
        Err((status, reason)) => (status, json!({"error": reason})),
    };
    (status, body.to_string())
}

impl Approvals {
    /// Takes an answer that was given on the page: `{"id": …, "answer": "approve"}`, `"refuse"` or `"show"`. Returns the
    /// status of HTTP and the body.
    pub async fn decide_on_page(&self, caller: Option<&Principal>, body: &[u8]) -> (u16, String) {
        response(match serde_json::from_slice(body) {
            Ok(PageAnswer { id, answer }) => {
                let token = None;
                self.decide(&id, caller, AnswerBody { answer, token }).await
            }
            Err(_) => Err((400, INVALID)),
        })
    }

    /// Returns `{"id": …, "status": …}`, or `{"id": …, "arguments": …}` with the hidden values.
    async fn decide(
        &self,
        id: &str,
        caller: Option<&Principal>,
        AnswerBody { answer, token }: AnswerBody,
    ) -> Result<Value, Refusal> {
        let mut entries = self.state.entries();
        if entries.get(EntryKind::Approval, id).is_none() {
            // It may wait at another gateway, since a moment. A failure leaves what is known.
            let _ = self.state.refresh().await;
            entries = self.state.entries();
        }
        let entry = entries.get(EntryKind::Approval, id);
        let found = entry.and_then(|entry| Some((entry.read::<Approval>()?, entry)));
        // First, so that unknown ids look like those of which the caller must not know.
        let approval = found.as_ref().map(|(approval, _)| approval);
        if answer == Decision::Show && token.is_some() {
            return Err((403, "the token of the webhook shows no hidden values"));
        }
        let by = self.decider(approval, caller, token, answer)?;
        let Some((approval, entry)) = found else {
            return Err((404, "there is no approval with this id"));
        };
        self.seen.update(&entries);
        match approval.status_at(now(), self.seen.is_alive(&approval.gateway)) {
            ApprovalStatus::Waiting if self.has_left(&approval) => return Err(ENDED),
            ApprovalStatus::Waiting => {}
            ApprovalStatus::Gone => return Err(ENDED),
            ApprovalStatus::Changed => return Err(CHANGED),
            ApprovalStatus::Expired => return Err((409, "the call has expired")),
            _ => return Err((409, "it is decided already, or the call has ended")),
        }
        let status = match answer {
            Decision::Approve => ApprovalStatus::Approved,
            Decision::Refuse => ApprovalStatus::Refused,
            Decision::Show => return self.show(&approval, &by),
        };
        let decided = decide(&self.state, approval, entry, status, &by).await?;
        let mut answered = json!({"id": decided.id, "status": decided.status});
        if decided.status == ApprovalStatus::Approved {
            answered["note"] = json!(MADE_NOW);
        }
        Ok(answered)
    }

    /// Shows the arguments of a call that waits here, and records who has seen them.
    fn show(&self, approval: &Approval, by: &str) -> Result<Value, Refusal> {
        let parked = self.parked.lock();
        let Some(call) = parked.get(&approval.id) else {
            return Err((409, "the call waits at another gateway: ask that one"));
        };
        let arguments = call.whole.as_ref().unwrap_or(&approval.arguments).clone();
        drop(parked);
        let event = (kind::APPROVAL, EventStatus::Success);
        let more = json!({"approval": approval.id, "shown_to": by});
        self.record(event, approval, "shown", more);
        Ok(json!({"id": approval.id, "arguments": arguments}))
    }

    /// True if a call of this gateway does not wait any more.
    fn has_left(&self, approval: &Approval) -> bool {
        approval.gateway == self.gateway && !self.parked.lock().contains_key(&approval.id)
    }

    /// Returns the name under which a decision is recorded, if it may be made.
    fn decider(
        &self,
        approval: Option<&Approval>,
        caller: Option<&Principal>,
        token: Option<String>,
        answer: Decision,
    ) -> Result<String, Refusal> {
        if let Some(token) = token {
            let known = approval.and_then(|approval| approval.token_hash.as_deref());
            return match known == Some(token_hash(&token).as_str()) {
                true => Ok("the token of the webhook".to_owned()),
                false => Err((403, "this token does not fit")),
            };
        }
        let unknown = "needs the token of the webhook, or that of a principal";
        let caller = caller.ok_or((401, unknown))?;
        let rules = self.rules();
        let role = rules.roles.as_ref().map(|roles| roles.role(Some(caller)));
        if !role.is_some_and(|role| role.has(Right::Approve)) {
            return Err((403, "needs the right `approve` in `own` of the role"));
        }
        let owner = approval.and_then(|approval| approval.principal.as_deref());
        let is_own = owner == Some(&*caller.name) && answer == Decision::Approve;
        match is_own && !rules.config.allow_own {
            true => Err((403, "a caller does not approve its own call")),
            false => Ok(caller.name.to_string()),
        }
    }
}

/// The path of the answer, before the id.
pub(super) const ANSWER_PATH: &str = "/approvals/";

/// Timeout of one attempt.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The delays before further attempts.
const RETRY_DELAYS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(25),
];

/// The URL for one call, and the token that answers it.
pub(super) struct Webhook {
    url: String,
    token: String,
}

impl Webhook {
    pub(super) fn new(url: String) -> Self {
        let (one, two) = (Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let token = format!("{one}{two}");
        Self { url, token }
    }

    pub(super) fn token_hash(&self) -> String {
        token_hash(&self.token)
    }

    /// Sends the call in the background, until the handle is dropped.
    pub(super) fn send(self, approval: &Approval) -> AbortOnDropHandle<()> {
        let message = json!({
            "id": approval.id,
            "tool": approval.tool,
            "backend": approval.backend,
            "who": approval.principal,
            "client": approval.client,
            "effect": approval.effect,
            "description": approval.description,
            "rule": approval.rule,
            "arguments": approval.arguments,
            "hash": approval.hash,
            "expires": rfc3339(approval.expires),
            "answer": {"path": format!("{ANSWER_PATH}{}", approval.id), "token": self.token},
        });
        let (id, url) = (approval.id.clone(), self.url);
        let send = async move {
            let mut delays = RETRY_DELAYS.into_iter();
            loop {
                let Ok(endpoint) = Endpoint::new(&url) else {
                    return;
                };
                let sent = Box::pin(endpoint.post_json(message.to_string()));
                let problem = match tokio::time::timeout(SEND_TIMEOUT, sent).await {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no response in time".to_owned(),
                };
                tracing::warn!(
                    approval = id,
                    problem,
                    "the webhook did not take a call that waits"
                );
                let Some(delay) = delays.next() else { return };
                tokio::time::sleep(delay).await;
            }
        };
        AbortOnDropHandle::new(tokio::spawn(send))
    }
}

/// Returns the SHA-256 hash of a token, in hexadecimal digits.
pub(super) fn token_hash(token: &str) -> String {
    hexadecimal(&Hash::hash(token.as_bytes()))
}
