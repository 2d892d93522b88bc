//! Sends the results of tasks to their URLs (`callback_url`), as well as it can: a result that was sent before a crash
//! of this server may be sent again. The task id is the idempotency key.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use upstream::http::header::AUTHORIZATION;
use upstream::http::{Client, Fault, Method, ServiceProfile, Url};
use upstream::poll::Backoff;

use super::follow::{MAX_WHOLE_RESULT_BYTES, TaskSnapshot};
use super::report::Report;
use crate::OpenHands;
use crate::api::tags::ConversationTags;
use crate::api::{ApiResult, Backend, Conversation, Execution, TaskId};
use crate::runner::Locks;

/// The intervals at which a task with a URL is read until its end.
const POLL_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(15));
/// Reads that may fail in a row, over about five minutes.
const MAX_FAILED_READS: u32 = 20;
/// The time after its last event in which a task that does not run, or waits for a person, is read.
const QUIET_TIME: Duration = Duration::from_secs(24 * 3600);
/// Timeout of one attempt.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// The times before an attempt is repeated.
const RETRIES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(20),
];
/// The response to a failed attempt is not used.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// The wait for a verify command in one poll.
const CHECK_WAIT: Duration = Duration::from_millis(500);
/// Pages of conversations that are searched after a restart.
const SEARCHED_PAGES: usize = 10;

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")),
    timeout: SEND_TIMEOUT,
    max_body: MAX_RESPONSE_BYTES,
    wording: crate::api::WORDING,
};

/// Sends results until the server stops.
pub(crate) async fn deliver_results(service: &Arc<OpenHands>) {
    if !service.callbacks.are_allowed() {
        return;
    }
    let mut expected = service.callbacks.expected().await;
    let deliver_all = async {
        let locks = Arc::new(Locks::default());
        while let Some(id) = expected.recv().await {
            let (service, locks) = (Arc::clone(service), Arc::clone(&locks));
            tokio::spawn(async move {
                // The next result of a task is expected after the one before it.
                let _lock = locks.lock(id).await;
                deliver(&service, id).await;
            });
        }
    };
    tokio::join!(search(service), deliver_all);
}

/// Finds the tasks whose result was not sent before a restart of this server.
async fn search(service: &OpenHands) {
    let mut delays = POLL_BACKOFF.delays();
    let search_once = async || {
        let Backend::Agent(server) = service.servers.backend().await? else {
            return Ok(());
        };
        let mut pages = 0;
        let expect = |page: Vec<Conversation>, _| {
            for task in page.iter().filter(|task| is_open(&task.tags)) {
                service.callbacks.expect(task.id);
            }
            pages += 1;
            pages < SEARCHED_PAGES
        };
        server.each_page(None, expect).await
    };
    while let Err(failure) = search_once().await {
        tracing::debug!(?failure, "cannot search for results that are not sent");
        delays.sleep().await;
    }
}

/// Returns true if the result is still to be sent.
fn is_open(tags: &ConversationTags) -> bool {
    tags.callback().is_some() && tags.delivery().is_none()
}

/// Waits until the task ends or asks for a permission, and sends its result.
async fn deliver(service: &OpenHands, id: TaskId) {
    let (mut delays, mut failed) = (POLL_BACKOFF.delays(), 0);
    let mut asked = None;
    loop {
        match try_deliver(service, id, &mut asked).await {
            Ok(true) => return,
            Ok(false) => failed = 0,
            Err(failure) => {
                tracing::debug!(task = %id, ?failure, "cannot read the result, or record that it was sent");
                failed += 1;
                if failure.is_unknown_task() || failed == MAX_FAILED_READS {
                    return;
                }
            }
        }
        tokio::select! {
            () = delays.sleep() => {}
            // It may be this one, which goes on after an answer.
            () = service.callbacks.added.notified() => delays = POLL_BACKOFF.delays(),
        }
    }
}

/// Sends the result of a task, if it has ended or asks for something else than `asked`, which has been sent. Returns true if
/// there is nothing more to send.
async fn try_deliver(
    service: &OpenHands,
    id: TaskId,
    asked: &mut Option<String>,
) -> ApiResult<bool> {
    // The call that holds it may be about to start the next run, for which the URL has been set already.
    let Some(lock) = service.runner.locks.try_lock(id) else {
        return Ok(false);
    };
    let server = service.servers.for_task(id).await?;
    let task = TaskSnapshot::read(&server, id, None).await?;
    let tags = &task.conversation.tags;
    let Some((url, number)) = tags.callback().filter(|_| is_open(tags)) else {
        return Ok(true);
    };
    let asks = task.pending.as_ref();
    let asks = asks.map(|pending| pending.confirmation_id.clone());
    if !task.status().is_settled() || (asks.is_some() && asks == *asked) {
        if task.needs_run {
            service.runner.begin_later(id);
        }
        let quiet = task.now.duration_since(task.conversation.last_event_at());
        let is_dead = task.conversation.execution_status != Execution::Running
            && Duration::try_from(quiet).is_ok_and(|quiet| quiet > QUIET_TIME);
        if is_dead {
            tracing::warn!(task = %id, "nothing happens with a task, so its result is not waited for any longer");
        }
        return Ok(is_dead);
    }
    // A server whose operator does not allow the host leaves it to those that do.
    let Ok(url) = service.callbacks.check(url) else {
        return Ok(true);
    };
    let mut report = Report::from_snapshot(&task);
    report
        .add_results(&server, &task, MAX_WHOLE_RESULT_BYTES)
        .await?;
    drop(lock);
    let until = Instant::now() + CHECK_WAIT;
    if !report.add_check(service, &server, &task, until).await? {
        return Ok(false);
    }
    // Receivers ignore a key that they know.
    let key = match (&asks, number) {
        (Some(confirmation_id), _) => format!("{id}-{confirmation_id}"),
        (None, 1) => id.to_string(),
        (None, _) => format!("{id}-{number}"),
    };
    let report = json!(report);
    let mut sent = send(service, &url, &key, &report).await;
    for delay in RETRIES {
        if sent.is_ok() {
            break;
        }
        sleep(delay).await;
        sent = send(service, &url, &key, &report).await;
    }
    if let Err(reason) = &sent {
        tracing::warn!(task = %id, reason, "callback_url did not take the result");
    }
    // It goes on to its result after the answer, which may be given in OpenHands itself.
    if asks.is_some() {
        *asked = asks;
        return Ok(false);
    }
    let _lock = service.runner.locks.lock(id).await;
    let task = server.conversation(id).await?;
    let mut tags = ConversationTags::from_task(&task);
    // Unless the task went on with a URL for its next result.
    if tags.callback().is_some_and(|(_, now)| now == number) {
        tags.set_delivery(&sent);
        server.set_tags(id, &tags).await?;
    }
    Ok(true)
}

/// Sends the report; the error is the reason why it was not taken.
async fn send(service: &OpenHands, url: &Url, key: &str, report: &Value) -> Result<(), String> {
    let client = Client::new(url.clone(), &PROFILE).map_err(|error| error.to_string())?;
    let token = service.callbacks.token.get();
    let token = token.map(|token| token.map(|token| format!("Bearer {token}")));
    let request = client
        .request(Method::POST, Vec::<String>::new())
        .credential(AUTHORIZATION.as_str(), token)
        .with(|http| http.header("Idempotency-Key", key))
        .body(report);
    let Err(failure) = request.send_unread().await else {
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
