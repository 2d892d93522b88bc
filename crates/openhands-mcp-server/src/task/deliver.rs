//! Sends the results of tasks to their URLs (`callback_url`), at least once each: a result that was sent
//! before a crash of this server, or by another replica at the same time, is sent again. The task id is the
//! idempotency key.

use std::time::Duration;

use openhands_api::{AgentServer, ApiResult, Backend, TaskId};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use upstream::http::header::AUTHORIZATION;
use upstream::http::{Client, Fault, Method, ServiceProfile, Url};

use super::outcome::TaskStatus;
use super::report::Report;
use super::snapshot::TaskSnapshot;
use crate::OpenHands;
use crate::callback::MAX_ATTEMPTS;
use crate::tags::{ConversationTags, Delivery};

/// The interval at which tasks with a URL are read until they end.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of one attempt.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// The response is not used.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// The wait for a verify command in one poll.
const CHECK_WAIT: Duration = Duration::from_millis(500);
/// Conversations that are searched for a URL after a start, and in one response.
const SEARCHED_PAGES: usize = 10;
const PAGE_SIZE: u32 = 100;

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")),
    timeout: SEND_TIMEOUT,
    max_body: MAX_RESPONSE_BYTES,
    wording: openhands_api::WORDING,
};

/// Sends results until the server stops.
pub(crate) async fn deliver_results(service: &OpenHands) {
    if !service.callbacks.are_allowed() {
        return;
    }
    while let Err(failure) = search(service).await {
        tracing::debug!(?failure, "cannot search for results that are not sent");
        sleep(POLL_INTERVAL).await;
    }
    loop {
        for id in service.callbacks.due() {
            match deliver(service, id).await {
                Ok(Progress::Ended) => service.callbacks.remove(id),
                Ok(Progress::Failed(failed)) => service.callbacks.retry(id, failed),
                Ok(Progress::NotYet) => {}
                Err(failure) if failure.is_unknown_task() => {
                    // It may be about to be created.
                    if service.scheduler.starts.try_lock(id).is_some() {
                        service.callbacks.remove(id);
                    }
                }
                Err(failure) => {
                    tracing::debug!(task = %id, ?failure, "cannot read the result");
                    break;
                }
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Finds the tasks whose result was not sent before a restart.
async fn search(service: &OpenHands) -> ApiResult<()> {
    let Backend::Agent(server) = service.servers.backend().await? else {
        return Ok(());
    };
    let mut page = None;
    for _ in 0..SEARCHED_PAGES {
        let listed = server
            .conversations(None, PAGE_SIZE, page.as_deref())
            .await?;
        for task in listed.items {
            if is_open(&ConversationTags::new(task.tags)) {
                service.callbacks.expect(task.id);
            }
        }
        page = listed.next_page_id;
        if page.is_none() {
            break;
        }
    }
    Ok(())
}

/// Returns true if the result is still to be sent.
fn is_open(tags: &ConversationTags) -> bool {
    let delivery = tags.delivery();
    tags.callback().is_some() && !delivery.is_done && delivery.failed < MAX_ATTEMPTS
}

enum Progress {
    NotYet,
    /// After so many attempts.
    Failed(u32),
    Ended,
}

/// Sends the result of a task, if it has ended.
async fn deliver(service: &OpenHands, id: TaskId) -> ApiResult<Progress> {
    use TaskStatus::{Cancelled, Failed, Finished, Stuck};
    let server = service.servers.for_task(id).await?;
    let task = TaskSnapshot::read(&server, id).await?;
    let tags = ConversationTags::new(task.conversation.tags.clone());
    if !is_open(&tags) {
        return Ok(Progress::Ended);
    }
    if !matches!(task.status(), Finished | Failed | Stuck | Cancelled) {
        return Ok(Progress::NotYet);
    }
    let mut report = Report::from_snapshot(&task);
    report.add_results(&server, &task).await?;
    let until = Instant::now() + CHECK_WAIT;
    if !report.add_check(service, &server, &task, until).await? {
        return Ok(Progress::NotYet);
    }
    // A server whose operator does not allow the host leaves it to those that do.
    let Some(url) = tags
        .callback()
        .and_then(|url| service.callbacks.check(url).ok())
    else {
        return Ok(Progress::Ended);
    };
    let sent = send(service, url.as_str(), id, &json!(report)).await;
    let delivery = match sent {
        Ok(()) => tags.delivery().done(),
        Err(reason) => {
            tracing::warn!(task = %id, reason, "callback_url did not take the result");
            tags.delivery().failed(reason)
        }
    };
    record(service, &server, id, &delivery).await?;
    Ok(match delivery {
        Delivery {
            is_done: false,
            failed,
            ..
        } if failed < MAX_ATTEMPTS => Progress::Failed(failed),
        _ => Progress::Ended,
    })
}

/// Sends the report; the error is the reason why it was not taken.
async fn send(service: &OpenHands, url: &str, id: TaskId, report: &Value) -> Result<(), String> {
    let url: Url = url.parse().map_err(|_| "not a URL".to_owned())?;
    let client = Client::new(url, &PROFILE).map_err(|error| error.to_string())?;
    let token = service.callbacks.token.get();
    let token = token.map(|token| token.map(|token| format!("Bearer {token}")));
    let request = client
        .request(Method::POST, Vec::<String>::new())
        .credential(AUTHORIZATION.as_str(), token)
        .with(|http| http.header("Idempotency-Key", id.to_string()))
        .body(report);
    match request.send_any_status().await {
        Ok(response) if response.status.is_success() => Ok(()),
        Ok(response) => Err(format!("HTTP {}", response.status.as_u16())),
        Err(failure) if failure.is_timeout() => Err("no response in time".to_owned()),
        Err(failure) => Err(match failure.fault() {
            Fault::CredentialUnreadable(_) => "the file with the token cannot be read",
            Fault::CredentialInvalid => "the token cannot be sent",
            _ => "no connection",
        }
        .to_owned()),
    }
}

async fn record(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    delivery: &Delivery,
) -> ApiResult<()> {
    let _lock = service.scheduler.starts.lock(id).await;
    let mut tags = ConversationTags::new(server.conversation(id).await?.tags);
    tags.set_delivery(delivery);
    server.set_tags(id, tags.as_tags()).await
}
