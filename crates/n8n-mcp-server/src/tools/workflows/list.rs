//! `list_workflows`

use std::sync::{Mutex, PoisonError};

use n8n_workflow::WorkflowRow;

use crate::api::WorkflowFilter;
use crate::tools::filtered_page::filtered_page;
use crate::tools::prelude::*;

const DEFAULT_LIMIT: u32 = 100;

/// Lists n8n workflows.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListWorkflows {
    /// Only those with all of these tags (names).
    #[serde(default)]
    tags: Vec<String>,
    /// Only active or only inactive ones.
    active: Option<bool>,
    /// Only those with this in their name.
    name: Option<String>,
    /// Only those of this project (id).
    project_id: Option<Id>,
    /// The archived ones instead of the others.
    #[serde(default)]
    archived: bool,
    /// Page size; default 100.
    limit: Option<Bounded<1, 250>>,
    /// Previous page's `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkflowPage {
    pub(crate) workflows: Vec<WorkflowRow>,
    /// Rows that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Tool for ListWorkflows {
    const NAME: &'static str = "list_workflows";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = WorkflowPage;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<WorkflowPage, ToolError> {
        let archived = self.archived;
        let (filter, cursor) = (self.filter()?, self.cursor.as_deref());
        let left_out = &Mutex::new(Vec::new());
        let (policy, limit) = (&n8n.api.policy, filter.limit as usize);
        let is_shown = |row: &WorkflowRow| {
            row.is_archived == archived && policy.admits_all(&row.id, &row.tags, &row.projects)
        };
        let fetch = |cursor| {
            let filter = WorkflowFilter {
                cursor,
                ..filter.clone()
            };
            async move {
                let (page, unreadable) = n8n.api.workflows(&filter).await?;
                let mut all = left_out.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend(unreadable);
                let rows = page.data.into_iter().map(WorkflowRow::marked);
                let rows = rows.map(|row| Some(row).filter(is_shown));
                Ok((rows.collect(), page.next_cursor))
            }
        };
        let (workflows, next_cursor) = filtered_page(limit, cursor, fetch).await?;
        // Their tags and projects are unknown.
        let mut all = left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left_out = std::mem::take(&mut *all);
        left_out.retain(|_| policy.is_open());
        Ok(WorkflowPage {
            workflows,
            left_out,
            next_cursor,
        })
    }
}

impl ListWorkflows {
    /// The call for as many workflows as n8n lists at once.
    pub(crate) fn first_page() -> Self {
        Self {
            limit: Bounded::new(250),
            ..Self::default()
        }
    }

    fn filter(&self) -> Result<WorkflowFilter, ToolError> {
        // n8n expects the names in one text, separated by commas, and ignores blank ones.
        let unusable = |tag: &&String| tag.contains(',') || tag.trim().is_empty();
        if let Some(tag) = self.tags.iter().find(unusable) {
            return Err(ToolError::invalid_argument(format!(
                "`tags` contains {tag:?}: n8n cannot search for a tag that is blank or has a comma."
            )));
        }
        Ok(WorkflowFilter {
            tags: self.tags.join(","),
            active: self.active,
            name: self.name.clone().filter(|name| !name.is_empty()),
            project: self.project_id.clone(),
            limit: self.limit.map_or(DEFAULT_LIMIT, Bounded::get),
            cursor: None,
        })
    }
}
