//! `list_workflows`

use crate::api::{WorkflowFilter, WorkflowRow};
use crate::tools::prelude::*;

const DEFAULT_LIMIT: u32 = 100;
/// Pages of n8n that one call reads.
const MAX_PAGES: u32 = 4;

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
        let mut filter = self.filter()?;
        let policy = &n8n.api.policy;
        let mut pages = 0;
        loop {
            let page = n8n.api.workflows(&filter).await?;
            let (mut workflows, next_cursor) = (page.data, page.next_cursor);
            workflows.retain(|row| {
                let is_open = policy.admits_all(&row.id, &row.tags, &row.projects);
                row.is_archived == archived && is_open
            });
            pages += 1;
            // n8n cannot filter by archived or by policy: an empty page is not the end.
            if !workflows.is_empty() || next_cursor.is_none() || pages == MAX_PAGES {
                return Ok(WorkflowPage {
                    workflows,
                    next_cursor,
                });
            }
            filter.cursor = next_cursor;
        }
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

    fn filter(self) -> Result<WorkflowFilter, ToolError> {
        // n8n expects the names in one text, separated by commas, and ignores blank ones.
        let unusable = |tag: &&String| tag.contains(',') || tag.trim().is_empty();
        if let Some(tag) = self.tags.iter().find(unusable) {
            return Err(ToolError::invalid_argument(format!(
                "`tags` contains {tag:?}: n8n cannot search for a tag that is blank or has a comma."
            )));
        }
        check_cursor(self.cursor.as_deref())?;
        Ok(WorkflowFilter {
            tags: self.tags.join(","),
            active: self.active,
            name: self.name.filter(|name| !name.is_empty()),
            project: self.project_id,
            limit: self.limit.map_or(DEFAULT_LIMIT, Bounded::get),
            cursor: self.cursor,
        })
    }
}
