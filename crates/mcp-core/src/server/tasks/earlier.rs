//! Tasks that were begun before a restart of the server, and go on at its service. The id of such a task names
//! its tool, and what the tool needs to find its work again.

use std::sync::Arc;

use serde_json::Map;

use super::TTL;
use super::calls::in_task;
use super::lifecycle::catch_panic;
use super::task::Task;
use crate::error::Error;
use crate::server::Server;
use crate::server::context::{Context, end};
use crate::server::outcome::CallEnd;
use crate::server::tool_result::conclude;
use crate::tool::{EarlierTask, ToolErrorKind};

/// Characters of an id; a tool that starts 20 pieces of work needs 800.
const MAX_ID_CHARS: usize = 1_000;
/// The digits with which an id begins.
const DIGITS: usize = 32;

/// The parts of an id: the name of the tool, and the task.
fn parse(id: &str) -> Option<(&str, EarlierTask<'_>)> {
    let (digits, rest) = id.split_once('.').filter(|_| id.len() <= MAX_ID_CHARS)?;
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if digits.len() != DIGITS || !digits.chars().all(is_digit) {
        return None;
    }
    let (tool, reference) = rest.split_once('.').unwrap_or((rest, ""));
    Some((tool, EarlierTask { digits, reference }))
}

impl Server {
    /// The caller's task with this id, which may run in another process, or have been begun before a restart.
    ///
    /// # Errors
    /// The service or the store does not say whether there is one.
    pub(super) async fn find_task(
        &self,
        id: &str,
        context: &Context<'_>,
    ) -> Result<Option<Arc<Task>>, Error> {
        if let Some(known) = self.tasks.find(id, context.caller) {
            return Ok(Some(known));
        }
        let stored = self.stored_task(id, context.caller).await?;
        match parse(id) {
            Some((tool, task)) if stored.as_ref().is_none_or(|task| task.has_failed()) => {
                // Boxed: few requests need it.
                let found = Box::pin(self.earlier(id, tool, task, context)).await?;
                Ok(found.or(stored))
            }
            _ => Ok(stored),
        }
    }

    /// Asks the tool for the task, and stores it. The task counts from now on as begun now.
    pub(super) async fn earlier(
        &self,
        id: &str,
        tool: &str,
        task: EarlierTask<'_>,
        context: &Context<'_>,
    ) -> Result<Option<Arc<Task>>, Error> {
        let catalog = self.catalog_of(context.caller);
        let Some((definition, tool)) = catalog.tool(tool) else {
            return Ok(None);
        };
        let searching = tool.find_task(task, &context.call);
        let found = match self
            .within_limits("the search for the task", context, searching)
            .await
        {
            CallEnd::Done(found) => found,
            CallEnd::Failed(error) if error.kind() == ToolErrorKind::NotFound => return Ok(None),
            CallEnd::Failed(error) => return Err(error.into()),
            CallEnd::NeedsInput(_) => return Ok(None),
        };
        let task = Arc::new(Task::new(
            id.to_owned(),
            context.caller,
            TTL,
            &Map::new(),
            &self.closing,
            Arc::clone(&self.clock),
        ));
        let stored = self.tasks.insert(&task).map_err(Error::ToolFailed)?;
        if !Arc::ptr_eq(&stored, &task) {
            // Another request has found it meanwhile.
            return Ok(Some(stored));
        }
        task.detach();
        // The request that asks for it is not that of the call.
        let call = in_task(&context.call, &task, false);
        let (name, era, client) = (definition.name.clone(), context.era, context.client.clone());
        let capabilities = context.call.capabilities();
        let failures = Arc::clone(&self.failures);
        let work = catch_panic(async move {
            let result = found(call).await;
            if let Err(error) = &result {
                failures.log(&name, error);
            }
            conclude(era, capabilities, end(client.as_deref(), result))
        });
        drop(self.spawn_task(Arc::clone(&task), work));
        Ok(Some(task))
    }
}

#[cfg(test)]
mod tests {
    use super::super::task::id;
    use super::*;

    #[test]
    fn id_names_the_tool_and_its_work() {
        let digits = "0123456789abcdef".repeat(2);
        for reference in ["", "a-b_1"] {
            let id = id(&digits, "run_task", reference);
            let (tool, task) = parse(&id).unwrap();
            assert_eq!(
                (tool, task.digits, task.reference),
                ("run_task", &*digits, reference)
            );
        }
        let long = "x".repeat(MAX_ID_CHARS);
        for other in [
            &digits,
            "1.run_task",
            &format!("{}.x", digits.to_uppercase()),
        ] {
            assert!(parse(other).is_none(), "{other}");
        }
        assert!(parse(&id(&digits, "run_task", &long)).is_none());
    }
}
