//! The toolset `authoring`: writing workflows, each after checking it.

use n8n_workflow::check::{Finding, NO_TRIGGER, Severity};
use n8n_workflow::draft::{Draft, Operation, apply, restore};
use n8n_workflow::{Node, Workflow};

use super::lifecycle::taken_paths;
use super::load;
use super::validate::{ValidateWorkflow, judge};
use crate::api::{WorkflowLock, Written, changed_meanwhile};
use crate::tools::prelude::*;

pub(crate) fn authoring() -> Toolset<N8n> {
    Toolset::new()
        .with::<ValidateWorkflow>()
        .with::<EditWorkflow>()
        .with::<CreateWorkflow>()
        .with::<UpdateWorkflow>()
        .with::<DuplicateWorkflow>()
}

const MAX_FINDINGS: usize = 10;

/// The addition for a draft beside which settings were changed.
const SETTINGS_ARE_LIVE: &str = "The settings have no versions: they apply at once.";

/// Rejects a draft with errors that it did not have before, and returns its warnings, or, if
/// `allow_invalid`, all findings; and a note if n8n did not answer about its nodes.
///
/// # Errors
/// The errors, and how to fix them. Nothing was written.
pub(super) async fn check_change(
    n8n: &N8n,
    before: Option<(&Workflow, &Draft)>,
    draft: &Draft,
    allow_invalid: bool,
) -> Result<(Vec<Finding>, String), ToolError> {
    let (is_active, before) = match before {
        Some((workflow, before)) => (workflow.active, Some(before)),
        None => (false, None),
    };
    n8n.api.admit_called(before, draft).await?;
    let is_new = |node: &&Node| {
        let same = before.and_then(|before| before.node(node.name()));
        same != Some(node)
    };
    let new: Vec<_> = draft.nodes.iter().filter(is_new).collect();
    let judged = judge(n8n, draft, &new, None).await;
    let mut found = judged.findings;
    if let Some(before) = before.filter(|_| !found.is_empty()) {
        let old = judge(n8n, before, &[], None).await;
        found.retain(|finding| !old.findings.contains(finding));
    }
    // A workflow that is not finished, or runs by hand, needs none.
    let is_fatal = |one: &&Finding| {
        one.severity == Severity::Error && (is_active || one.message != NO_TRIGGER)
    };
    let errors = found.iter().filter(is_fatal).take(MAX_FINDINGS);
    let errors: String = errors.map(|error| format!("\n- {}", line(error))).collect();
    if !errors.is_empty() && !allow_invalid {
        return Err(ToolError::invalid_argument(format!(
            "Nothing was written. The workflow would have errors:{errors}\nallow_invalid=true \
             writes it in spite of them, as a draft."
        )));
    }
    found.truncate(MAX_FINDINGS);
    let unchecked = judged.unchecked.join("; ");
    // Without its MCP server n8n is never asked.
    let note = match n8n.mcp.is_configured() && !unchecked.is_empty() {
        true => format!("Not checked: {unchecked}"),
        false => String::new(),
    };
    Ok((found, note))
}

fn line(finding: &Finding) -> String {
    let node = finding.node.as_deref();
    let node = node.map_or(String::new(), |node| format!("{node:?}: "));
    let fix = finding.fix.as_deref().unwrap_or_default();
    format!("{node}{} {fix}", finding.message)
}

/// Loads a workflow that is to be changed.
///
/// # Errors
/// Also if it was changed since `version`, or must not be changed.
pub(super) async fn load_for_change(
    n8n: &N8n,
    id: &Id,
    version: Option<&str>,
) -> Result<(WorkflowLock, Workflow, Draft), ToolError> {
    let lock = n8n.api.lock(id).await;
    let (workflow, draft) = load(n8n, id).await?;
    if version.is_some_and(|version| version != workflow.updated_at) {
        return Err(changed_meanwhile(id));
    }
    n8n.api.policy.check_write(&workflow)?;
    Ok((lock, workflow, draft))
}

/// Changes the draft of a workflow by small operations. If one fails or the result would have errors, none
/// is done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditWorkflow {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// The operations are done in order; each names its node.
    operations: Vec<Operation>,
    /// get_workflow shows it; the change is refused if the workflow was changed since.
    version: Option<String>,
    /// Only check the result, and write nothing.
    #[serde(default)]
    dry_run: bool,
    /// Write the draft in spite of errors; what is live stays as it is.
    #[serde(default)]
    allow_invalid: bool,
    /// Make the draft live, if the workflow is active and the draft holds no other changes than yours.
    #[serde(default)]
    publish: bool,
}

impl Tool for EditWorkflow {
    const NAME: &'static str = "edit_workflow";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Written;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        if self.operations.is_empty() {
            return Err(ToolError::invalid_argument("`operations` is empty."));
        }
        let (id, version) = (&self.workflow_id, self.version.as_deref());
        let loaded = load_for_change(n8n, id, version).await?;
        let (_, current, before) = &loaded;
        let shown = redacted(n8n, before);
        let (mut draft, seen) =
            apply(before, &shown, self.operations).map_err(ToolError::invalid_argument)?;
        restore(&mut draft, &seen, &shown, before, &n8n.redactor())
            .map_err(ToolError::invalid_argument)?;
        let change = Some((current, before));
        let checked = check_change(n8n, change, &draft, self.allow_invalid).await?;
        if self.dry_run {
            let written = Written::new(loaded.1, Vec::new()).with_checks(checked);
            return Ok(written.with_note("Checked only: nothing was written."));
        }
        replace(n8n, loaded, &draft, checked, self.publish).await
    }
}

pub(super) async fn replace(
    n8n: &N8n,
    (lock, current, before): (WorkflowLock, Workflow, Draft),
    draft: &Draft,
    checked: (Vec<Finding>, String),
    publish: bool,
) -> Result<Written, ToolError> {
    let publish = publish && checked.0.iter().all(|one| one.severity != Severity::Error);
    let api = &n8n.api;
    let written = api.replace_workflow(lock, &current, draft, publish).await?;
    let has_new_settings = written.is_draft && draft.settings != before.settings;
    let note = has_new_settings.then_some(SETTINGS_ARE_LIVE);
    let written = written.with_note(note.unwrap_or_default());
    let taken = match publish && current.active && !written.is_draft {
        true => taken_paths(n8n, &current.id, &draft.nodes).await,
        false => None,
    };
    let written = written.with_note(&taken.unwrap_or_default());
    Ok(written.with_checks(checked))
}

/// Creates an inactive workflow, after checking it.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateWorkflow {
    /// The name is shown in n8n.
    name: Name,
    /// Each node has name, type, typeVersion and parameters; id and position are optional.
    nodes: Vec<Map<String, Value>>,
    /// They have the form {"A": {"main": [[{"node": "B", "type": "main", "index": 0}]]}}.
    #[serde(default)]
    connections: Map<String, Value>,
    /// They are, for example, executionOrder, timezone, errorWorkflow, availableInMCP.
    #[serde(default)]
    settings: Map<String, Value>,
    /// Write the workflow in spite of errors.
    #[serde(default, skip_serializing)]
    allow_invalid: bool,
}

impl Tool for CreateWorkflow {
    const NAME: &'static str = "create_workflow";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Written;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        let given = json!(self).as_object().cloned().unwrap_or_default();
        let mut draft = Draft::read(given).map_err(ToolError::invalid_argument)?;
        // As n8n's own editor does; without it n8n runs nodes in the order of its first version.
        let order = draft.settings.entry("executionOrder");
        order.or_insert_with(|| "v1".into());
        draft.body().map_err(ToolError::invalid_argument)?;
        let checked = check_change(n8n, None, &draft, self.allow_invalid).await?;
        let written = n8n.api.create_workflow(&draft, None).await?;
        Ok(written.with_checks(checked))
    }
}

/// Replaces the draft of a workflow by a whole definition, after checking it. For small changes use
/// edit_workflow.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateWorkflow {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// get_workflow returns it with full=true: name, nodes, connections, settings. A part that is left out stays
    /// as it is; fields that n8n does not accept are ignored.
    workflow: Map<String, Value>,
    /// get_workflow shows it; the change is refused if the workflow was changed since.
    version: Option<String>,
    /// It works as in edit_workflow.
    #[serde(default)]
    allow_invalid: bool,
    /// It works as in edit_workflow.
    #[serde(default)]
    publish: bool,
}

impl Tool for UpdateWorkflow {
    const NAME: &'static str = "update_workflow";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Written;

    async fn call(mut self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        // The whole answer of get_workflow holds the version, and the definition.
        let shown = self.workflow.get("version").and_then(Value::as_str);
        let (id, version) = (&self.workflow_id, self.version.as_deref().or(shown));
        let has_version = version.is_some();
        let loaded = load_for_change(n8n, id, version).await?;
        let (_, current, before) = &loaded;
        if let Some(Value::Object(definition)) = self.workflow.remove("definition") {
            self.workflow = definition;
        }
        let draft = Draft::read_change(self.workflow, before);
        let mut draft = draft.map_err(ToolError::invalid_argument)?;
        let (seen, shown) = (draft.clone(), redacted(n8n, before));
        restore(&mut draft, &seen, &shown, before, &n8n.redactor())
            .map_err(ToolError::invalid_argument)?;
        let change = Some((current, before));
        let checked = check_change(n8n, change, &draft, self.allow_invalid).await?;
        // Without a version these may be the nodes of somebody else, which the caller has not seen.
        let note = match has_version {
            true => String::new(),
            false => removed(before, &draft, current.version_id.as_deref()),
        };
        let written = replace(n8n, loaded, &draft, checked, self.publish).await?;
        Ok(written.with_note(&note))
    }
}

/// Names the nodes that are in no node's place any more, and the version that still has them; empty if there are
/// none.
fn removed(before: &Draft, after: &Draft, version: Option<&str>) -> String {
    let id = |node: &Node| node.0.get("id").cloned();
    let is_gone = |node: &&Node| {
        let own = id(node);
        let is_kept =
            |kept: &Node| kept.name() == node.name() || (own.is_some() && id(kept) == own);
        !after.nodes.iter().any(is_kept)
    };
    let gone = before.nodes.iter().filter(is_gone);
    let gone: Vec<_> = gone.map(|node| format!("{:?}", node.name())).collect();
    if gone.is_empty() {
        return String::new();
    }
    let old = version.map_or(String::new(), |version| {
        format!("; the draft before is version {version}")
    });
    format!("Removed: {}{old}.", gone.join(", "))
}

pub(super) fn redacted(n8n: &N8n, draft: &Draft) -> Draft {
    draft.redacted(&n8n.redactor())
}

const OF_THE_DRAFT: &str = "It is a copy of the draft, which is not what is live.";

/// Copies a workflow. The copy is inactive, without tags, and its webhooks have new paths.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DuplicateWorkflow {
    /// list_workflows shows the id.
    workflow_id: Id,
    /// The default is the old name and "copy".
    name: Option<Name>,
}

impl Tool for DuplicateWorkflow {
    const NAME: &'static str = "duplicate_workflow";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Written;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Written, ToolError> {
        let (original, mut draft) = load(n8n, &self.workflow_id).await?;
        let name = match self.name {
            Some(name) => name,
            None => {
                Name::try_from(format!("{} copy", draft.name())).map_err(ToolError::upstream)?
            }
        };
        draft.set_name(name);
        draft.make_urls_unique();
        let project = original.projects.first().map(String::as_str);
        let written = n8n.api.create_workflow(&draft, project).await?;
        let is_draft = original.unpublished_draft().is_some();
        Ok(written.with_note(if is_draft { OF_THE_DRAFT } else { "" }))
    }
}
