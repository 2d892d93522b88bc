//! Sends the results of tasks to their URLs (`callback_url`), at least once each: a result that was sent
//! before a crash of this server, or by another replica at the same time, is sent again. The task id is the
//! idempotency key.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use upstream::http::header::AUTHORIZATION;
use upstream::http::{Client, Fault, Method, ServiceProfile, Url};
use upstream::time;

use super::outcome::TaskStatus;
use super::report::Report;
use super::snapshot::{MAX_WHOLE_RESULT_BYTES, TaskSnapshot};
use crate::OpenHands;
use crate::api::{AgentServer, ApiResult, Backend, TaskId};
use crate::callback::MAX_ATTEMPTS;
use crate::scheduler::{GoesOn, goes_on};
use crate::tags::{ConversationTags, Delivery};

/// The interval at which tasks with a URL are read until they end.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of one attempt.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// The response to a failed attempt is not used.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// The wait for a verify command in one poll.
const CHECK_WAIT: Duration = Duration::from_millis(500);
/// The time between two searches for results that are not sent.
const SEARCH_INTERVAL: Duration = Duration::from_secs(300);
/// Pages of conversations that are searched, and conversations in one.
const SEARCHED_PAGES: usize = 10;
const PAGE_SIZE: u32 = 100;

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")),
    timeout: SEND_TIMEOUT,
    max_body: MAX_RESPONSE_BYTES,
    wording: crate::api::WORDING,
};

/// Sends results until the server stops.
pub(crate) async fn deliver_results(service: &OpenHands) {
    if !service.callbacks.are_allowed() {
        return;
    }
    let (mut next_search, mut quiet) = (Instant::now(), Duration::ZERO);
    loop {
        if Instant::now() >= next_search {
            match search(service, quiet).await {
                Ok(()) => {
                    (next_search, quiet) = (Instant::now() + SEARCH_INTERVAL, SEARCH_INTERVAL)
                }
                Err(failure) => {
                    tracing::debug!(?failure, "cannot search for results that are not sent");
                }
            }
        }
        for id in service.callbacks.due() {
            match deliver(service, id).await {
                Ok(()) => {}
                Err(failure) if failure.is_unknown_task() => {
                    // It may be about to be created.
                    if service.scheduler.starts.try_lock(id).is_some() {
                        service.callbacks.remove(id);
                    }
                }
                Err(failure) => {
                    tracing::debug!(task = %id, ?failure, "cannot read the result, or record that it was sent");
                    service.callbacks.postpone(id);
                }
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Finds the tasks without a new event for `quiet` whose result was not sent: before a restart, or by a replica
/// that is gone. One that is there records its attempts, which are events.
async fn search(service: &OpenHands, quiet: Duration) -> ApiResult<()> {
    let Backend::Agent(server) = service.servers.backend().await? else {
        return Ok(());
    };
    let mut page = None;
    for _ in 0..SEARCHED_PAGES {
        let listed = server
            .conversations(None, PAGE_SIZE, page.as_deref())
            .await?;
        for task in listed.items {
            let is_quiet = time::since(&task.updated_at).is_none_or(|since| since >= quiet);
            if is_quiet && is_open(&ConversationTags::new(task.tags)) {
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

/// Sends the result of a task, if it has ended.
async fn deliver(service: &OpenHands, id: TaskId) -> ApiResult<()> {
    use TaskStatus::{Cancelled, Failed, Finished, Stuck};
    let callbacks = &service.callbacks;
    // The call that holds it may be about to start the next run, for which the URL has been set already.
    let Some(lock) = service.scheduler.starts.try_lock(id) else {
        return Ok(());
    };
    let server = service.servers.for_task(id).await?;
    let task = TaskSnapshot::read(&server, id).await?;
    let tags = ConversationTags::new(task.conversation.tags.clone());
    let Some((url, number)) = tags.callback().filter(|_| is_open(&tags)) else {
        callbacks.remove(id);
        return Ok(());
    };
    if callbacks.is_sent(id, number) {
        drop(lock);
        return record(service, &server, id, number, &tags.delivery().done()).await;
    }
    if !matches!(task.status(), Finished | Failed | Stuck | Cancelled) {
        return Ok(());
    }
    // A server whose operator does not allow the host leaves it to those that do.
    let Ok(url) = callbacks.check(url) else {
        callbacks.remove(id);
        return Ok(());
    };
    let mut report = Report::from_snapshot(&task);
    report
        .add_results(&server, &task, MAX_WHOLE_RESULT_BYTES)
        .await?;
    drop(lock);
    let until = Instant::now() + CHECK_WAIT;
    if !report.add_check(service, &server, &task, until).await? {
        return Ok(());
    }
    let key = match number {
        1 => id.to_string(),
        // Receivers ignore a key that they know.
        _ => format!("{id}-{number}"),
    };
    let sent = send(service, url.as_str(), &key, &json!(report)).await;
    let delivery = match sent {
        Ok(()) => {
            callbacks.set_sent(id, number);
            tags.delivery().done()
        }
        Err(reason) => {
            tracing::warn!(task = %id, reason, "callback_url did not take the result");
            tags.delivery().failed(reason)
        }
    };
    record(service, &server, id, number, &delivery).await
}

/// Sends the report; the error is the reason why it was not taken.
async fn send(service: &OpenHands, url: &str, key: &str, report: &Value) -> Result<(), String> {
    let url: Url = url.parse().map_err(|_| "not a URL".to_owned())?;
    let client = Client::new(url, &PROFILE).map_err(|error| error.to_string())?;
    let token = service.callbacks.token.get();
    let token = token.map(|token| token.map(|token| format!("Bearer {token}")));
    let request = client
        .request(Method::POST, Vec::<String>::new())
        .credential(AUTHORIZATION.as_str(), token)
        .with(|http| http.header("Idempotency-Key", key))
        .body(report);
    // The body of a success is not read.
    let Err(failure) = request.stream().await else {
        return Ok(());
    };
    Err(match failure.status() {
        Some(status) => format!("HTTP {}", status.as_u16()),
        None if failure.is_timeout() => "no response in time".to_owned(),
        None => match failure.fault() {
            Fault::CredentialUnreadable(_) => "the file with the token cannot be read",
            Fault::CredentialInvalid => "the token cannot be sent",
            _ => "no connection",
        }
        .to_owned(),
    })
}

/// Records the last attempt to send the result with this number.
async fn record(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    number: u32,
    delivery: &Delivery,
) -> ApiResult<()> {
    let _lock = service.scheduler.starts.lock(id).await;
    let task = server.conversation(id).await?;
    let mut tags = ConversationTags::new(task.tags.clone());
    if tags.callback().is_none_or(|(_, now)| now != number) {
        // The task went on with a URL for its next result.
        service.callbacks.retry(id, 0);
        return Ok(());
    }
    // Unless the next run is about to begin.
    if goes_on(server, &task, &tags).await? == GoesOn::No {
        tags = ConversationTags::from_task(&task);
    }
    tags.set_delivery(delivery);
    server.set_tags(id, tags.as_tags()).await?;
    match is_open(&tags) {
        true => service.callbacks.retry(id, delivery.failed),
        false => service.callbacks.remove(id),
    }
    Ok(())
}
