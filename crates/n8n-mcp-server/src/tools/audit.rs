//! The toolset `audit`.

use std::time::Duration;

use crate::tools::prelude::*;

/// Places that are listed for one risk.
const MAX_PLACES: usize = 20;
/// Long, because an audit reads every workflow.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(25);

pub(crate) fn audit() -> Toolset<N8n> {
    Toolset::new().with::<AuditN8n>()
}

/// Runs n8n's security audit: unprotected webhooks, risky nodes, unused credentials,
/// expressions in database queries, access to files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditN8n {
    /// Only these kinds of risks.
    #[serde(default)]
    categories: Vec<Category>,
    /// After this many days without a run a workflow counts as abandoned; default 90.
    abandoned_after_days: Option<Bounded<1, 3_650>>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Category {
    Credentials,
    Database,
    Nodes,
    Filesystem,
    Instance,
}

#[derive(Serialize, JsonSchema)]
struct Audit {
    risks: Vec<Risk>,
}

#[derive(Serialize, JsonSchema)]
struct Risk {
    category: String,
    title: String,
    recommendation: String,
    /// Number of places.
    count: usize,
    /// The first of them: workflow and node, or credential.
    places: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Report {
    risk: String,
    sections: Vec<Section>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Section {
    title: String,
    recommendation: String,
    location: Vec<Map<String, Value>>,
}

impl Tool for AuditN8n {
    const NAME: &'static str = "audit_n8n";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Audit;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Audit, ToolError> {
        let mut options = Map::new();
        if !self.categories.is_empty() {
            options.insert("categories".into(), json!(self.categories));
        }
        if let Some(days) = self.abandoned_after_days {
            options.insert("daysAbandonedWorkflow".into(), days.get().into());
        }
        let body = json!({"additionalOptions": options});
        let request = n8n.api.request(Method::POST, &["audit"]).body(&body);
        let answer = request.timeout(AUDIT_TIMEOUT).json().await;
        let answer: Value =
            answer.map_err(|failure| refusal(failure, "This n8n cannot audit itself."))?;
        // n8n returns an empty list if there is nothing to report.
        let reports = answer.as_object().into_iter().flat_map(Map::values);
        let reports: Vec<_> = reports
            .filter_map(|one| Report::deserialize(one).ok())
            .collect();
        let sections = reports.iter().flat_map(|report| &report.sections);
        let places = sections.flat_map(|section| &section.location);
        let workflows = places.filter_map(workflow_id).collect();
        let open = n8n.api.open_workflows(workflows).await?;
        let is_open = |place: &Map<String, Value>| {
            !place.contains_key("workflowId")
                || workflow_id(place).is_some_and(|id| open.contains(&id))
        };
        let mut risks = Vec::new();
        for Report { risk, sections } in reports {
            for mut section in sections {
                let all = section.location.len();
                section.location.retain(is_open);
                if section.location.is_empty() && all > 0 {
                    continue;
                }
                let places = section.location.iter().take(MAX_PLACES).map(place);
                risks.push(Risk {
                    category: risk.clone(),
                    count: section.location.len(),
                    places: places.collect(),
                    title: section.title,
                    recommendation: section.recommendation,
                });
            }
        }
        Ok(Audit { risks })
    }
}

fn workflow_id(location: &Map<String, Value>) -> Option<Id> {
    let id = location.get("workflowId")?.as_str()?;
    Id::try_from(id.to_owned()).ok()
}

fn place(location: &Map<String, Value>) -> String {
    let text = |key: &str| location.get(key).and_then(Value::as_str);
    match (
        text("workflowId"),
        text("nodeName"),
        text("name").or(text("id")),
    ) {
        (Some(workflow), Some(node), _) => format!("workflow {workflow}, node {node}"),
        (Some(workflow), None, _) => format!("workflow {workflow}"),
        (None, _, Some(name)) => format!("{} {name}", text("kind").unwrap_or("credential")),
        _ => "n8n itself".to_owned(),
    }
}
