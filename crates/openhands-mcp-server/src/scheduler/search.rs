//! The search for tasks that wait and are not in the queue.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use upstream::time;

use super::running::LIST_PAUSE;
use super::{CUT_OFF_AFTER, PAGE_SIZE, Scheduler, TICK_INTERVAL};
use crate::api::{AgentServer, ApiResult, Backend, Execution};
use crate::tags::ConversationTags;

/// The interval of searches, unless something has failed.
const SEARCH_INTERVAL: Duration = Duration::from_secs(300);
/// The time in which the server that changed a waiting task starts it itself.
const OWN_START_TIME: Duration = Duration::from_secs(5);
/// Responses in one search.
const MAX_PAGES: usize = 20;

impl Scheduler {
    /// Searches until the server stops.
    pub(super) async fn run_searches(&self) {
        loop {
            let began = Instant::now();
            if let Err(failure) = self.search_all().await {
                tracing::debug!(?failure, "cannot search for waiting tasks");
                self.search_again.notify_one();
            }
            let pause = began.elapsed() * LIST_PAUSE;
            sleep(pause.clamp(TICK_INTERVAL, SEARCH_INTERVAL)).await;
            let _ = timeout(SEARCH_INTERVAL, self.search_again.notified()).await;
        }
    }

    async fn search_all(&self) -> ApiResult<()> {
        let Backend::Agent(server) = self.servers.backend().await? else {
            return Ok(());
        };
        let stopped = [
            Execution::Idle,
            Execution::Paused,
            Execution::Error,
            Execution::Stuck,
        ];
        let mut searched = Ok(());
        for execution in stopped {
            searched = searched.and(self.search(&server, execution).await);
        }
        searched
    }

    /// Finds tasks that wait, or whose start may have been cut off, among the newest conversations in the state
    /// `execution`.
    async fn search(&self, server: &AgentServer, execution: Execution) -> ApiResult<()> {
        if server.count_conversations(execution).await? == 0 {
            return Ok(());
        }
        let mut page = None;
        let mut found = Vec::new();
        for _ in 0..MAX_PAGES {
            let conversations = server
                .conversations(Some(execution), PAGE_SIZE, page.as_deref())
                .await?;
            for listed in conversations.items {
                let tags = ConversationTags::new(listed.tags);
                let time_of_others = if tags.waits_for().is_some() {
                    OWN_START_TIME
                } else if tags.deadline().is_some() {
                    CUT_OFF_AFTER
                } else {
                    continue;
                };
                let quiet = time::since(&listed.updated_at).unwrap_or_default();
                found.push((listed.id, time_of_others.saturating_sub(quiet)));
            }
            page = conversations.next_page_id;
            if page.is_none() {
                break;
            }
        }
        // The list is newest first.
        for (id, delay) in found.into_iter().rev() {
            self.queue.push_after(id, delay);
        }
        Ok(())
    }
}
