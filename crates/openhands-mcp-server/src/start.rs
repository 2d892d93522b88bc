//! From an order to a task that runs, or waits for its turn.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::timeout_at;

use crate::OpenHands;
use crate::api::{Conversation, Execution, NewConversation};
use crate::clock;
use crate::notes::{Notes, Waits};
use crate::order::Order;
use crate::task_id::TaskId;

/// How often, and after which time, a place at a full agent server is asked for again.
const PLACE_TRIES: u32 = 30;
const PLACE_PAUSE: Duration = Duration::from_millis(300);

impl OpenHands {
    /// Starts the task, or finds the one that its key stands for. Where there is no room for it, it
    /// waits in line at the agent server.
    ///
    /// # Errors
    /// No task was started, unless the message says that this is not certain.
    pub(crate) async fn start(&self, order: Order) -> Result<TaskId, ToolError> {
        if let Some(app) = self.servers.app().await? {
            return self.start_sandboxed(&app, &order).await;
        }
        let Some(key) = &order.key else {
            return self
                .start_new(TaskId::random(), order, Notes::default())
                .await;
        };
        let id = TaskId::of_key(key);
        let purpose = order.purpose();
        // Looked up first: a file that is put in place again would undo the agent's work on it.
        match self.at(id).await?.conversation(id).await {
            Ok(conversation) => {
                same_purpose(&conversation, &purpose)?;
                self.mend(id, &conversation, &order).await?;
                Ok(id)
            }
            Err(failure) if failure.is_no_task() => {
                let mut notes = Notes::default();
                notes.set_purpose(purpose);
                self.start_new(id, order, notes).await
            }
            Err(failure) => Err(failure.into()),
        }
    }

    async fn start_new(
        &self,
        id: TaskId,
        order: Order,
        mut notes: Notes,
    ) -> Result<TaskId, ToolError> {
        let budget = self.limits.apply(&order.budget)?;
        let profile = order.agent.as_deref().or(self.profile.as_deref());
        let agent_profile = self.agent_server().await?.agent_profile(profile).await?;
        let place = self.prepare(id, &order).await?;
        let plugin = self.plugin().await?;
        notes.set_title(&order.task);
        notes.set_base(place.base.as_deref());
        if let Some(seconds) = budget.seconds {
            notes.set_seconds(seconds);
        }
        if let Some(cost) = budget.cost {
            notes.set_cost(cost);
        }
        let purpose = notes.purpose().map(str::to_owned);
        let prompt = order.prompt();
        let new = NewConversation {
            id,
            agent_profile: &agent_profile,
            working_dir: &place.directory,
            notes: &notes,
            max_iterations: budget.iterations.unwrap_or(self.limits.iterations),
            confirm: order.confirm,
            plugin: plugin.as_ref(),
            prompt: Some(&prompt),
        };
        let waits = place.fetch.map(Waits::ForRepository);
        let started = async {
            if waits.is_none() && self.has_room(id).await? {
                let mut begun = notes.clone();
                begun.begin(clock::now());
                let running = NewConversation {
                    notes: &begun,
                    ..new
                };
                match self.create(&running).await {
                    Ok(created) => return Ok(created.0),
                    Err(error) => {
                        self.line.give_back(id);
                        if !error.is_full() {
                            return Err(error.into());
                        }
                    }
                }
            }
            self.start_waiting(&new, waits.unwrap_or(Waits::ForRoom))
                .await
        };
        let conversation = match timeout_at(order.answer_by, started).await {
            Ok(started) => started?,
            Err(_) => {
                let reason = "The agent server takes too long to start the task.";
                let error = ToolError::new(ToolErrorKind::Timeout, reason);
                return Err(uncertain(id, error));
            }
        };
        // Somebody else may have used the key in the meantime.
        if let Some(purpose) = purpose {
            same_purpose(&conversation, &purpose)?;
        }
        tracing::info!(task = %id, "task started");
        Ok(id)
    }

    /// Makes the conversation without letting the agent begin, and puts it into the line. All that
    /// is needed to begin is then at the agent server.
    async fn start_waiting(
        &self,
        new: &NewConversation<'_>,
        waits: Waits,
    ) -> Result<Conversation, ToolError> {
        let mut notes = new.notes.clone();
        notes.set_waits(Some(waits));
        let waiting = NewConversation {
            notes: &notes,
            prompt: None,
            ..*new
        };
        let (conversation, is_new) = self.create_waiting(&waiting).await?;
        if is_new || self.at(new.id).await?.count_prompts(new.id).await? == 0 {
            let prompt = new.prompt.unwrap_or_default();
            self.at(new.id).await?.prompt(new.id, prompt, false).await?;
        }
        self.line.join(new.id);
        Ok(conversation)
    }

    /// Making a conversation needs a place for a moment, which may become free.
    async fn create_waiting(
        &self,
        waiting: &NewConversation<'_>,
    ) -> Result<(Conversation, bool), Unstarted> {
        let mut tries = 0;
        loop {
            match self.create(waiting).await {
                Err(error) if error.is_full() && tries < PLACE_TRIES => {
                    tries += 1;
                    tokio::time::sleep(PLACE_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    /// A task that was made but not told what to do, because whoever started it died in between.
    async fn mend(
        &self,
        id: TaskId,
        conversation: &Conversation,
        order: &Order,
    ) -> Result<(), ToolError> {
        /// Seconds that making a task and telling it may take, at most.
        const STARTING: u64 = 10;
        let is_waiting = conversation.execution_status == Execution::Idle
            && conversation.notes.waits().is_some();
        let quiet = clock::seconds_since(&conversation.updated_at);
        if is_waiting && quiet.is_some_and(|quiet| quiet > STARTING) {
            let server = self.at(id).await?;
            if server.count_prompts(id).await? == 0 {
                server.prompt(id, &order.prompt(), false).await?;
            }
            self.line.join(id);
        }
        Ok(())
    }

    /// Without an answer it is not known whether the task runs. Asking again is harmless, because
    /// the id is ours: it finds the task or makes it.
    async fn create(&self, new: &NewConversation<'_>) -> Result<(Conversation, bool), Unstarted> {
        let server = self.agent_server().await;
        let server = server.map_err(|failure| Unstarted::Certain(failure.into()))?;
        match server.create(new).await {
            Err(failure) if failure.is_ambiguous() => {
                tracing::warn!(task = %new.id, ?failure, "no answer to a start, asking again");
                let again = server.create(new).await;
                again.map_err(|failure| Unstarted::Uncertain(uncertain(new.id, failure.into())))
            }
            answer => answer.map_err(|failure| match failure.is_full() {
                true => Unstarted::Full(failure.into()),
                false => Unstarted::Certain(failure.into()),
            }),
        }
    }
}

/// Why a conversation was not made.
enum Unstarted {
    Full(ToolError),
    Certain(ToolError),
    /// It may have been.
    Uncertain(ToolError),
}

impl Unstarted {
    fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl From<Unstarted> for ToolError {
    fn from(unstarted: Unstarted) -> Self {
        match unstarted {
            Unstarted::Full(error) | Unstarted::Certain(error) | Unstarted::Uncertain(error) => {
                error
            }
        }
    }
}

fn same_purpose(conversation: &Conversation, purpose: &str) -> Result<(), ToolError> {
    if conversation.notes.purpose() == Some(purpose) {
        return Ok(());
    }
    Err(ToolError::new(
        ToolErrorKind::Conflict,
        "This idempotency_key was used for another task or file. Use a new key for new work.",
    ))
}

/// Nobody knows whether the task was started, for the reason that `error` gives.
pub(crate) fn uncertain(id: TaskId, error: ToolError) -> ToolError {
    let message = format!(
        "{} Whether the task was started is not certain: ask get_task_status for task_id {id} \
         before you run it again.",
        error.message()
    );
    ToolError::new(error.kind(), message).caused_by(error)
}
